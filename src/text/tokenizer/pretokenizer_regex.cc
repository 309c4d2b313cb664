#include "text/tokenizer/pretokenizer_regex.h"

#include <pcre2.h>

namespace glint {
namespace {

constexpr std::uint32_t kMaxSteps = 1u << 28;
constexpr std::size_t kMaxBacktrackBytes = std::size_t{256} << 20;

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* code) : code(code) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
  bool jit = false;
};

struct Regex::Scratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;  // made when a search first outgrows 32 KiB of the thread's own

  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Regex::Scratch::Scratch() : state_(std::make_unique<State>()) {
  GLINT_CHECK(state_->data && state_->context, "out of memory for a regular expression");
  pcre2_set_match_limit(state_->context, kMaxSteps);
  pcre2_set_depth_limit(state_->context, kMaxSteps);
  pcre2_set_heap_limit(state_->context, kMaxBacktrackBytes >> 10);
}

Regex::Scratch::~Scratch() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
  if (!code) return invalid(pcre2_message(error));
  auto owned = std::make_shared<Code>(code);
  // Where memory may not be made executable the interpreter does the same, slower.
  owned->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(owned));
}

Regex::Outcome Regex::find(std::string_view text, std::size_t from, Match& match,
                           Scratch& scratch) const {
  Scratch::State& state = *scratch.state_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = 0;
  if (code_->jit) {
    const auto search = [&] {
      return pcre2_jit_match(code_->code, subject, text.size(), from, 0, state.data, state.context);
    };
    result = search();
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !state.stack) {
      state.stack = pcre2_jit_stack_create(1 << 20, kMaxBacktrackBytes, nullptr);
      pcre2_jit_stack_assign(state.context, nullptr, state.stack);
      if (state.stack) result = search();
    }
  } else {
    result = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.data,
                         state.context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return Outcome::kNone;
  if (result < 0) return Outcome::kGaveUp;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state.data);
  match = {ends[0], ends[1]};
  return Outcome::kMatch;
}

}  // namespace glint
