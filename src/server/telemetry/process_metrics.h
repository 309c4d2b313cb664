// The process_* metrics of every Prometheus exporter: time, memory, open files. Linux only.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace glint {

class ProcessMetrics {
 public:
  // Registers process_*; `registry` outlives this.
  explicit ProcessMetrics(prometheus::Registry& registry);

  // Reads the numbers again.
  void update();

 private:
  prometheus::Counter& cpu_seconds_;
  prometheus::Gauge &resident_, &virtual_, &start_time_, &open_files_, &max_files_;
};

}  // namespace glint
