// NCCL, found when it is needed: the program starts without it.
#pragma once

#include <nccl.h>

#include <memory>

namespace glint::cuda {

// Functions of NCCL that are called.
#define GLINT_FOR_EACH_NCCL(F) \
  F(GetVersion)                \
  F(GetUniqueId)               \
  F(CommInitRankConfig)        \
  F(CommAbort)                 \
  F(CommGetAsyncError)         \
  F(GroupStart)                \
  F(GroupEnd)                  \
  F(Send)                      \
  F(Recv)                      \
  F(AllGather)                 \
  F(Broadcast)                 \
  F(AllReduce)                 \
  F(GetErrorString)
// Functions that newer versions of NCCL added.
#define GLINT_FOR_EACH_NEW_NCCL(F) \
  F(MemAlloc)                      \
  F(MemFree)                       \
  F(CommWindowRegister)            \
  F(CommWindowDeregister)

struct NcclLibrary {
#define GLINT_FUNCTION(name) decltype(&nccl##name) name = nullptr;
  GLINT_FOR_EACH_NCCL(GLINT_FUNCTION)
  GLINT_FOR_EACH_NEW_NCCL(GLINT_FUNCTION)
#undef GLINT_FUNCTION
  int version = 0;  // as NCCL counts: 22809 is 2.28.9
};

// libnccl.so.2 of the system, or null. It stays loaded.
const NcclLibrary* find_nccl();

}  // namespace glint::cuda
