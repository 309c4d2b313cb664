#include "server/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace glint {
namespace {

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

// Field `index` of /proc/self/stat, counted from 1 as in proc(5); 0 if it cannot be read.
double stat_field(int index) {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');  // the name, field 2, may hold blanks
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int i = 2; i < index; ++i) rest >> field;
  return rest ? std::stod(field) : 0;
}

double boot_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  timespec boot = {};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  return std::chrono::duration<double>(now).count() - static_cast<double>(boot.tv_sec) -
         static_cast<double>(boot.tv_nsec) * 1e-9;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry)
    : cpu_seconds_(prometheus::BuildCounter()
                       .Name("process_cpu_seconds_total")
                       .Help("processor time, of the user and of the system")
                       .Register(registry)
                       .Add({})),
      resident_(gauge(registry, "process_resident_memory_bytes", "memory that is in use")),
      virtual_(gauge(registry, "process_virtual_memory_bytes", "memory that is reserved")),
      start_time_(gauge(registry, "process_start_time_seconds",
                        "when the process began, in seconds since 1970")),
      open_files_(gauge(registry, "process_open_fds", "files and sockets that are open")),
      max_files_(gauge(registry, "process_max_fds", "files and sockets that may be open")) {
  constexpr int kStartTime = 22;
  start_time_.Set(boot_time() + stat_field(kStartTime) / static_cast<double>(sysconf(_SC_CLK_TCK)));
  update();
}

void ProcessMetrics::update() {
  constexpr int kVirtual = 23, kResident = 24;
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const double seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    if (seconds > cpu_seconds_.Value()) cpu_seconds_.Increment(seconds - cpu_seconds_.Value());
  }
  virtual_.Set(stat_field(kVirtual));
  resident_.Set(stat_field(kResident) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  std::error_code error;
  std::int64_t files = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error))
    ++files;
  open_files_.Set(static_cast<double>(files));
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) max_files_.Set(static_cast<double>(limit.rlim_cur));
}

}  // namespace glint
