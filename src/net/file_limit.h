// How many files this process may have open: a connection is one, and the usual soft limit is 1024.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace glint {

// For so many connections, as far as the hard limit allows. Gives the limit.
inline rlim_t raise_file_limit(int connections) {
  rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(connections) + 512);
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
  return wanted;
}

}  // namespace glint
