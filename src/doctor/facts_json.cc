#include "doctor/facts_json.h"

namespace glint {
namespace {

Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json known(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json("unlimited");
}

Json::Array list(const std::vector<std::string>& texts) {
  return Json::Array(texts.begin(), texts.end());
}

Json cpu_json(const CpuFacts& cpu) {
  return Json::Object{{"model", known(cpu.model)},
                      {"cpus", cpu.online},
                      {"usable", cpu.usable},
                      {"quota", cpu.has_quota},
                      {"numa_nodes", cpu.numa_nodes},
                      {"kernels", known(cpu.isa)},
                      {"virtual", cpu.is_virtual},
                      {"governor", known(cpu.governor)},
                      {"frequency_driver", known(cpu.frequency_driver)},
                      {"on_battery", cpu.on_battery}};
}

Json memory_json(const MemoryFacts& memory) {
  return Json::Object{
      {"installed", memory.installed},          {"total", memory.total},
      {"available", memory.available},          {"huge_pages", known(memory.huge_pages)},
      {"reserved_huge_bytes", memory.reserved}, {"overcommit", memory.overcommit}};
}

Json limits_json(const LimitFacts& limits) {
  if (!limits.known) return nullptr;
  return Json::Object{{"open_files", known(limits.open_files)},
                      {"locked_bytes", known(limits.locked_bytes)},
                      {"address_bytes", known(limits.address_bytes)},
                      {"file_bytes", known(limits.file_bytes)}};
}

Json disk_json(const DiskFacts& disk) {
  return Json::Object{{"what", disk.what},
                      {"path", disk.path},
                      {"mount", known(disk.mount)},
                      {"type", known(disk.type)},
                      {"total", disk.total},
                      {"free", disk.free},
                      {"read_only", disk.is_read_only},
                      {"missing", disk.is_missing},
                      {"writable", disk.is_writable}};
}

Json gpu_json(const GpuFacts& gpu) {
  Json out = Json::Object{{"bus", known(gpu.bus)},
                          {"id", known(gpu.id)},
                          {"name", known(gpu.name)},
                          {"kernel_driver", known(gpu.driver)},
                          {"iommu_group_type", known(gpu.iommu)},
                          {"pcie_lanes", gpu.link_width},
                          {"most_pcie_lanes", gpu.max_link_width},
                          {"numa_node", gpu.numa_node}};
  if (!gpu.answers) return out;
  out.set("memory_mib", gpu.memory_mib);
  out.set("used_mib", gpu.used_mib);
  out.set("compute_capability", known(gpu.compute));
  out.set("persistence", gpu.persistence);
  out.set("mig", gpu.mig);
  return out;
}

Json gpus_json(const GpuSystemFacts& gpu) {
  Json::Array devices;
  for (const GpuFacts& device : gpu.gpus) devices.push_back(gpu_json(device));
  return Json::Object{{"devices", std::move(devices)},
                      {"driver", known(gpu.driver_version)},
                      {"nvidia_smi", known(gpu.smi)},
                      {"nvidia_smi_error", known(gpu.smi_error)},
                      {"device_files", gpu.has_devices},
                      {"libcuda", gpu.has_libcuda},
                      {"nvswitches", gpu.switches},
                      {"nvlink", gpu.has_nvlink},
                      {"fabric_manager", gpu.has_fabric_manager},
                      {"peers_known", gpu.has_peers},
                      {"peers_refused", list(gpu.peers_refused)},
                      {"acs_bridges_read", gpu.bridges_read},
                      {"acs_bridges_hidden", gpu.bridges_hidden},
                      {"acs_redirecting_bridges", list(gpu.redirecting_bridges)}};
}

}  // namespace

Json to_json(const MachineFacts& m) {
  Json::Array disks, libraries;
  for (const DiskFacts& disk : m.disks) disks.push_back(disk_json(disk));
  for (const LibraryFacts& library : m.libraries) {
    libraries.push_back(Json::Object{{"name", library.name},
                                     {"path", known(library.path)},
                                     {"version", known(library.version)}});
  }
  return Json::Object{{"system", m.system},
                      {"kernel", known(m.kernel)},
                      {"container", known(m.container)},
                      {"boot_options", known(m.boot_options)},
                      {"iommu", m.has_iommu},
                      {"cpu", cpu_json(m.cpu)},
                      {"memory", memory_json(m.memory)},
                      {"limits", limits_json(m.limits)},
                      {"disks", std::move(disks)},
                      {"gpu", gpus_json(m.gpu)},
                      {"infiniband", list(m.infiniband)},
                      {"nvidia_peermem", m.has_peermem},
                      {"libraries", std::move(libraries)},
                      {"variables", list(m.variables)}};
}

Json machine_summary(const MachineFacts& m) {
  Json::Array gpus;
  for (const GpuFacts& gpu : m.gpu.gpus) gpus.push_back(gpu.name.empty() ? gpu.id : gpu.name);
  return Json::Object{{"cpu", known(m.cpu.model)},   {"cpus", m.cpu.usable},
                      {"kernels", known(m.cpu.isa)}, {"memory_bytes", m.memory.total},
                      {"virtual", m.cpu.is_virtual}, {"container", !m.container.empty()},
                      {"system", m.system},          {"kernel", known(m.kernel)},
                      {"gpus", std::move(gpus)},     {"gpu_driver", known(m.gpu.driver_version)}};
}

Json to_json(const Rates& rates) {
  if (rates.read_gb_s <= 0) return nullptr;
  return Json::Object{{"backend", rates.backend},
                      {"threads", rates.threads},
                      {"read_gb_per_s", rates.read_gb_s},
                      {"f32_gflops", rates.f32_gflops},
                      {"matrix_gflops", rates.matrix_gflops}};
}

Json to_json(std::span<const Finding> findings) {
  Json::Array out;
  for (const Finding& finding : findings) {
    out.push_back(Json::Object{{"area", finding.area},
                               {"subject", finding.subject},
                               {"mark", name_of(finding.mark)},
                               {"text", finding.text},
                               {"commands", list(finding.commands)}});
  }
  return out;
}

}  // namespace glint
