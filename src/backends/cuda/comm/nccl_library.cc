#include "backends/cuda/comm/nccl_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>

namespace glint::cuda {
namespace {

const NcclLibrary* load() {
  void* const handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  static NcclLibrary library;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    return function != nullptr;
  };
#define GLINT_FIND(name) \
  if (!find("nccl" #name, library.name)) return nullptr;
  GLINT_FOR_EACH_NCCL(GLINT_FIND)
#undef GLINT_FIND
#define GLINT_FIND(name) has_new = find("nccl" #name, library.name) && has_new;
  bool has_new = true;
  GLINT_FOR_EACH_NEW_NCCL(GLINT_FIND)
#undef GLINT_FIND
  constexpr int kLastWithoutWindows = 22799;
  if (library.GetVersion(&library.version) != ncclSuccess) return nullptr;
  if (!has_new) library.version = std::min(library.version, kLastWithoutWindows);
  return &library;
}

}  // namespace

const NcclLibrary* find_nccl() {
  static const NcclLibrary* const library = load();
  return library;
}

}  // namespace glint::cuda
