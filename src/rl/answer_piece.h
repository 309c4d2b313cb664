// AnswerPiece: an answer as a server tells it so far, in the form of /generate (SGLang's API). All
// of it is checked: a server may be another than it should, or broken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/request.h"

namespace glint {

// The request that is answered.
struct AnswerLimits {
  int prompt_tokens = 0, max_tokens = 0;
  TokenId num_token_ids = 0;
  std::string weight_version = {};
  // Experts of each row are wanted: [rows, num_layers, experts_per_token], of num_experts.
  bool routes = false;
  int num_layers = 0, experts_per_token = 0, num_experts = 0;
  std::vector<int> moe_layers = {};  // their indices; others have no experts

  // The longest text of a piece, and the values in it.
  std::size_t max_bytes() const;
  std::size_t max_values() const;
};

struct AnswerPiece {
  std::vector<TokenId> tokens = {};  // all so far
  std::vector<float> log_probs = {};
  std::optional<FinishReason> finished = {};  // kStop, kLength or kCancelled
  std::vector<std::uint16_t> routes = {};     // at the end: [rows, MoE layers, experts_per_token]
  int cached_tokens = 0;
};

// Fails with one sentence, without a subject: "tells token 7000 ...".
Result<AnswerPiece> parse_answer_piece(std::string_view text, const AnswerLimits& limits);

// The body of /generate that asks what the request does. It is answered by pieces, each at least
// `stream_interval` tokens longer than the last.
Json generate_body(const Request& request, const std::string& rid, int stream_interval);

}  // namespace glint
