#include "engine/request.h"

#include "base/check.h"

namespace glint {

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  GLINT_CHECK(false, "a finish reason without a name");
}

}  // namespace glint
