// From Oniguruma's regular expressions, which a tokenizer.json is written in, to PCRE2's.
//
// The languages look alike and differ in meaning: \s and \w cover other characters, \h is a hex
// digit, ^ and $ work at every line, {1,3}+ repeats where PCRE2 would be possessive, scripts are
// without their extensions. What has no translation here (back references, \K, conditionals ...) is
// refused, so that no pattern silently means something else.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

struct Pcre2Pattern {
  std::string text;
  bool extended_class = false;  // needs PCRE2_ALT_EXTENDED_CLASS: [a-z&&[^q]]
};

Result<Pcre2Pattern> translate_oniguruma(std::string_view pattern);

}  // namespace glint
