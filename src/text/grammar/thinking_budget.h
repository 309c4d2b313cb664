// A limit on the tokens of a thought: after so many nothing may come but </think>.
#pragma once

#include <memory>
#include <vector>

#include "base/token_constraint.h"

namespace glint {

// A constraint at the start of an answer that begins inside <think>. The thought ends with
// `end_think` or with one of `other_ends` (<tool_call>); what follows is for `inner` alone, which
// may be null and sees every token.
std::shared_ptr<TokenConstraint> limit_thinking(int max_tokens, TokenId end_think,
                                                std::vector<TokenId> other_ends,
                                                std::shared_ptr<TokenConstraint> inner);

}  // namespace glint
