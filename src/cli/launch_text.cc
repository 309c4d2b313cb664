#include "cli/launch_text.h"

#include "base/str.h"

namespace glint {
namespace {

constexpr int kPort = 8000, kCpusPerGpu = 8;

std::int64_t mebibytes(std::int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

// A word of a shell's or of YAML's, in single quotes.
std::string in_quotes(const std::string& text, const char* quote) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out + "'";
}

std::string probe(const char* kind, const char* path) {
  return str("            ", kind, ":\n              httpGet: {path: ", path, ", port: ", kPort,
             "}\n");
}

// The pod of a machine; the leader's is the one that answers requests.
std::string pod(const LaunchText& launch, bool leads) {
  const bool is_path = launch.model.starts_with('/');
  const bool with_shm = launch.gpus > 1;  // NCCL takes more than the 64 MiB that containers have
  const std::string resources = str("memory: ", mebibytes(launch.memory), "Mi",
                                    launch.gpus > 0 ? str(", nvidia.com/gpu: ", launch.gpus) : "");
  std::string text =
      str("        spec:\n"
          // Longer than answers get to end after SIGTERM (--shutdown-timeout), on every machine.
          "          terminationGracePeriodSeconds: 90\n"
          "          containers:\n"
          "          - name: glint\n"
          "            image: glint\n"
          "            command: [glint, serve, ",
          in_quotes(launch.model, "''"), ", --host, 0.0.0.0, --port, '", kPort, "'");
  for (const std::string& word : launch.words) text += ", " + in_quotes(word, "''");
  text += str("]\n            resources: {requests: {", resources, "}, limits: {", resources,
              "}}\n"
              "            volumeMounts:\n"
              "            - {name: model, mountPath: ",
              in_quotes(is_path ? launch.model : "/root/.cache/huggingface", "''"),
              ", readOnly: true}\n",
              with_shm ? "            - {name: shm, mountPath: /dev/shm}\n" : "");
  if (leads) {
    text += probe("startupProbe", "/health") + "              failureThreshold: 360\n";
    text += probe("readinessProbe", "/health");
  }
  text +=
      str("          volumes:\n          - {name: model, hostPath: {path: ",
          in_quotes(is_path ? launch.model : "/var/lib/huggingface", "''"), "}}\n",
          with_shm ? "          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}\n" : "");
  return text;
}

}  // namespace

std::string kubernetes_manifest(const LaunchText& launch) {
  std::string text =
      str("# Needs LeaderWorkerSet (leaderworkerset.x-k8s.io), and the model on every node.\n"
          "apiVersion: leaderworkerset.x-k8s.io/v1\n"
          "kind: LeaderWorkerSet\n"
          "metadata: {name: glint}\n"
          "spec:\n"
          "  replicas: 1\n"
          "  leaderWorkerTemplate:\n"
          "    size: ",
          launch.machines,
          "\n"
          "    restartPolicy: RecreateGroupOnPodRestart\n"
          "    leaderTemplate:\n"
          "        metadata: {labels: {role: glint-leader}}\n",
          pod(launch, true), "    workerTemplate:\n", pod(launch, false));
  return text + str("---\n"
                    "apiVersion: v1\n"
                    "kind: Service\n"
                    "metadata: {name: glint-server}\n"
                    "spec:\n"
                    "  selector: {role: glint-leader}\n"
                    "  ports:\n"
                    "  - {port: ",
                    kPort, ", targetPort: ", kPort, "}\n");
}

std::string slurm_script(const LaunchText& launch) {
  std::string words;
  for (const std::string& word : launch.words) words += " " + word;
  return str("#!/bin/bash\n#SBATCH --job-name=glint\n#SBATCH --nodes=", launch.machines,
             "\n#SBATCH --ntasks-per-node=1\n#SBATCH --mem=", mebibytes(launch.memory), "M\n",
             // Without a word of CPUs a task has one.
             launch.gpus > 0 ? str("#SBATCH --gpus-per-node=", launch.gpus,
                                   "\n#SBATCH --cpus-per-gpu=", kCpusPerGpu, '\n')
                             : "#SBATCH --exclusive\n",
             "#SBATCH --requeue\n"
             "srun --kill-on-bad-exit=1 glint serve ",
             in_quotes(launch.model, "'\\''"), words, " --host 0.0.0.0 --port ", kPort,
             "\ncode=$?\n"
             "# 2: the model or the command line is wrong, and would be so again.\n"
             "if [ $code -ne 0 ] && [ $code -ne 2 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n"
             "exit $code\n");
}

}  // namespace glint
