#include "model/backends_under_test.h"

#include "cli/backends.h"

namespace glint {

std::vector<BackendUnderTest> backends_under_test() {
  std::vector<BackendUnderTest> list;
  const auto add = [&](const std::string& name, const std::string& isa) {
    const BackendOptions options = {.name = name, .cpu_isa = isa, .threads = 1};
    if (!make_backend(options).ok()) return;  // this machine lacks it
    list.push_back({name + (isa.empty() ? "" : ":" + isa), [options](int threads) {
                      BackendOptions with_threads = options;
                      with_threads.threads = threads;
                      return make_backend(with_threads).value();
                    }});
  };
  add("reference", "");
  add("cuda", "");
  for (const char* isa : {"avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"}) add("cpu", isa);
  return list;
}

BackendUnderTest best_backend() {
  return {"auto", [](int threads) {
            return make_backend({.name = "auto", .cpu_isa = "auto", .threads = threads}).value();
          }};
}

BackendUnderTest host_backend() {
  return {"cpu:auto", [](int threads) {
            return make_backend({.name = "cpu", .cpu_isa = "auto", .threads = threads}).value();
          }};
}

}  // namespace glint
