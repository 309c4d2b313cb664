#include "rl/answer_piece.h"

#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "base/cut_text.h"
#include "base/str.h"

namespace glint {
namespace {

// A token's id, and its triple with its text; the text of the answer comes beside.
constexpr std::size_t kTokenBytes = 1024, kOtherBytes = std::size_t{1} << 20;

std::string shown(const Json* json) { return json ? cut_text(dump_json(*json), 80) : "nothing"; }

Result<Json::Array> list(const Json& json, const char* name) {
  const Json* const found = json.find(name);
  if (found && found->is_array()) return found->as_array();
  return invalid(str("tells ", name, " as ", shown(found), ", which is no list"));
}

// Fails unless `json` is an integer from 0 to `most`.
Result<int> count(const Json* json, const char* name, std::int64_t most) {
  if (json && json->is_int() && json->as_int() >= 0 && json->as_int() <= most) {
    return static_cast<int>(json->as_int());
  }
  return invalid(str("tells ", name, " ", shown(json), "; expected an integer from 0 to ", most));
}

Status read_tokens(const Json& json, const Json& meta, const AnswerLimits& limits,
                   AnswerPiece& piece) {
  GLINT_TRY(const Json::Array ids, list(json, "output_ids"));
  GLINT_TRY(const Json::Array scores, list(meta, "output_token_logprobs"));
  if (std::ssize(ids) > limits.max_tokens) {
    return invalid(str("tells ", ids.size(), " tokens; ", limits.max_tokens, " were asked for"));
  }
  if (scores.size() != ids.size()) {
    return invalid(str("tells ", scores.size(), " log-probabilities of ", ids.size(), " tokens"));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    GLINT_TRY(const TokenId id, count(&ids[i], "token", limits.num_token_ids - 1));
    const Json& score = scores[i];
    const bool is_score = score.is_array() && score.as_array().size() >= 2 &&
                          score.as_array()[0].is_number() && score.as_array()[1] == ids[i];
    const double value = is_score ? score.as_array()[0].as_double() : NAN;
    if (!std::isfinite(static_cast<float>(value))) {
      return invalid(str("tells ", shown(&score), " for token ", id,
                         "; expected its log-probability, a number, and the id"));
    }
    piece.tokens.push_back(id);
    piece.log_probs.push_back(static_cast<float>(value));
  }
  return Ok{};
}

Status read_finish(const Json& meta, AnswerPiece& piece) {
  const Json* const reason = meta.find("finish_reason");
  if (!reason || reason->is_null()) return Ok{};
  const Json* const type = reason->find("type");
  for (const FinishReason known :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled}) {
    if (type && *type == Json(name_of(known))) piece.finished = known;
  }
  if (piece.finished) return Ok{};
  return invalid(str("tells finish_reason ", shown(reason), "; expected stop, length or abort"));
}

// Experts of one row in one layer.
Status read_experts(std::string_view bytes, int num_experts, std::vector<std::uint16_t>& out) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::int32_t)) {
    std::int32_t expert = 0;
    std::memcpy(&expert, bytes.data() + i, sizeof(expert));
    if (expert < 0 || expert >= num_experts)
      return invalid(str("tells expert ", expert, "; the model has ", num_experts));
    out.push_back(static_cast<std::uint16_t>(expert));
  }
  return Ok{};
}

Status read_routes(const Json& meta, const AnswerLimits& limits, AnswerPiece& piece) {
  const Json* const text = meta.find("routed_experts");
  const std::optional<std::string> bytes =
      text && text->is_string() ? from_base64(text->as_string()) : std::nullopt;
  // The last token's row did not run.
  const std::size_t layer =
      static_cast<std::size_t>(limits.experts_per_token) * sizeof(std::int32_t);
  const std::size_t row = static_cast<std::size_t>(limits.num_layers) * layer;
  const std::size_t rows = static_cast<std::size_t>(limits.prompt_tokens) + piece.tokens.size() - 1;
  if (!bytes || bytes->size() != rows * row) {
    return invalid(str("tells routed_experts in ", bytes ? bytes->size() : 0, " bytes; expected ",
                       rows * row, ", of ", rows, " rows"));
  }
  for (std::size_t begin = 0; begin < bytes->size(); begin += row) {
    for (const int moe : limits.moe_layers) {
      const std::string_view all = *bytes;
      GLINT_TRY_STATUS(
          read_experts(all.substr(begin + static_cast<std::size_t>(moe) * layer, layer),
                       limits.num_experts, piece.routes));
    }
  }
  return Ok{};
}

}  // namespace

std::size_t AnswerLimits::max_bytes() const {
  const auto tokens = static_cast<std::size_t>(max_tokens);
  const std::size_t rows = static_cast<std::size_t>(prompt_tokens) + tokens;
  const auto experts = static_cast<std::size_t>(routes ? num_layers * experts_per_token : 0);
  return kOtherBytes + tokens * kTokenBytes + rows * experts * 6;
}

std::size_t AnswerLimits::max_values() const {
  return 1024 + static_cast<std::size_t>(max_tokens) * 8;
}

Result<AnswerPiece> parse_answer_piece(std::string_view text, const AnswerLimits& limits) {
  Result<Json> json =
      parse_json(text, {.max_values = limits.max_values(), .max_members = limits.max_values()});
  if (!json.ok()) return invalid("sends no sound JSON: " + json.error().message);
  const Json* const meta = json.value().find("meta_info");
  if (!meta || !meta->is_object())
    return invalid("tells no meta_info: it has no /generate of SGLang");
  if (const Json* const version = meta->find("weight_version");
      !version || *version != Json(limits.weight_version)) {
    return invalid(str("answers with weights ", shown(version), ", not with ",
                       quoted(limits.weight_version), ": somebody else changed them"));
  }
  AnswerPiece piece;
  GLINT_TRY_STATUS(read_tokens(json.value(), *meta, limits, piece));
  GLINT_TRY_STATUS(read_finish(*meta, piece));
  if (!piece.finished) return piece;
  if (piece.tokens.empty()) {
    if (piece.finished == FinishReason::kCancelled) return piece;
    return invalid("ends an answer without a token");
  }
  GLINT_TRY(piece.cached_tokens,
            count(meta->find("cached_tokens"), "cached_tokens", limits.prompt_tokens));
  if (limits.routes) {
    GLINT_TRY_STATUS(read_routes(*meta, limits, piece));
  }
  return piece;
}

Json generate_body(const Request& request, const std::string& rid, int stream_interval) {
  const auto ids_of = [](const std::vector<TokenId>& ids) {
    return Json(Json::Array(ids.begin(), ids.end()));
  };
  const SamplingParams& sampling = request.sampling;
  // All that a server has defaults of its own for.
  Json params = Json::Object{{"temperature", sampling.temperature},
                             {"top_p", sampling.top_p},
                             {"top_k", sampling.top_k > 0 ? sampling.top_k : -1},
                             {"min_p", 0},
                             {"repetition_penalty", 1},
                             {"presence_penalty", 0},
                             {"frequency_penalty", 0},
                             {"sampling_seed", static_cast<std::int64_t>(sampling.seed)},
                             {"max_new_tokens", request.max_tokens},
                             {"ignore_eos", true},
                             {"stop_token_ids", ids_of(request.stop_ids)}};
  return Json::Object{{"input_ids", ids_of(request.prompt)},
                      {"sampling_params", std::move(params)},
                      {"stream", true},
                      {"stream_interval", stream_interval},
                      {"rid", rid},
                      {"return_logprob", true},
                      {"return_routed_experts", request.want.routed_experts}};
}

}  // namespace glint
