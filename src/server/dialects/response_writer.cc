#include "server/dialects/response_writer.h"

#include <algorithm>

#include "base/hash.h"
#include "base/random.h"
#include "base/str.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/openai_response.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sglang_generate.h"

namespace glint {

namespace {

// {"position": 17, "num_tokens": ..., "keys": [{"position": 3, "num_layers": 2}, ...]}. Never
// streamed.
class KeysWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;
  Json whole(const Answer& answer) override {
    const auto count = static_cast<std::int64_t>(answer.prompts[0].size());
    Json::Array keys;
    for (const Extras::KeyRead& key : answer.choices[0].selected_keys)
      keys.push_back(Json::Object{{"position", key.position}, {"num_layers", key.num_layers}});
    return Json::Object{{"position", count - 1}, {"num_tokens", count}, {"keys", std::move(keys)}};
  }
  void begin(const Answer&, std::string&) override {}
  void piece(const Piece&, const Answer&, std::string&) override {}
  void end(const Answer&, std::string&) override {}
  void error(const ApiError&, std::string&) override {}
};

}  // namespace

std::unique_ptr<ResponseWriter> make_writer(const ApiRequest& request, ResponseInfo info,
                                            const TokenNames& names) {
  switch (request.api) {
    case Api::kCompletions:
      return std::make_unique<CompletionWriter>(request, std::move(info), names);
    case Api::kChat:
      return std::make_unique<ChatWriter>(request, std::move(info), names);
    case Api::kResponses:
      return std::make_unique<ResponsesWriter>(request, std::move(info), names);
    case Api::kMessages:
      return std::make_unique<MessagesWriter>(request, std::move(info), names);
    case Api::kGenerate:
      return std::make_unique<GenerateWriter>(request, std::move(info), names);
    case Api::kKeys:
      break;
  }
  return std::make_unique<KeysWriter>(request, std::move(info), names);
}

void append_event(std::string& out, std::string_view name, std::string_view json) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(json).append("\n\n");
}

Json openai_usage(const Answer& answer) {
  const TokenEvent::Usage& usage = answer.usage;
  return Json::Object{
      {"prompt_tokens", usage.prompt_tokens},
      {"completion_tokens", usage.completion_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"prompt_tokens_details", Json::Object{{"cached_tokens", usage.cached_tokens}}},
      {"completion_tokens_details", Json::Object{{"reasoning_tokens", answer.reasoning_tokens}}}};
}

std::string name_of(TokenId id, const TokenNames& names, bool as_ids) {
  return as_ids ? str("token_id:", id) : names.text(id);
}

Json::Array logprobs_json(const std::vector<TokenScore>& scores, const TokenNames& names,
                          bool as_ids) {
  const auto one = [&](TokenId id, float logprob) {
    return Json(Json::Object{{"token", name_of(id, names, as_ids)},
                             {"logprob", finite_logprob(logprob)},
                             {"bytes", names.bytes_json(id)}});
  };
  Json::Array out;
  for (const TokenScore& score : scores) {
    Json item = one(score.id, score.logprob.logprob);
    Json::Array top;
    for (const TokenLogprob::Top& other : score.logprob.top)
      top.push_back(one(other.id, other.logprob));
    item.set("top_logprobs", std::move(top));
    out.push_back(std::move(item));
  }
  return out;
}

std::string choice_id(const std::string& answer, int choice) { return str(answer, "-", choice); }

std::string call_id(const ResponseInfo& info, int choice, int index) {
  Random random(fnv1a(info.id),
                (static_cast<std::uint64_t>(choice) << 32) + static_cast<unsigned>(index));
  std::string id = "call_";
  for (int i = 0; i < 24; ++i) id += "0123456789abcdefghijklmnopqrstuvwxyz"[random.below(36)];
  return id;
}

double finite_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

}  // namespace glint
