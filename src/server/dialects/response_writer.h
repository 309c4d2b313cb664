// ResponseWriter: an answer in the form of one API: whole, or as server-sent events while it grows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/queue.h"
#include "server/answer.h"
#include "server/api_types.h"
#include "server/errors.h"
#include "server/token_names.h"

namespace glint {

struct ResponseInfo {
  std::string id = {};  // "chatcmpl-..."
  std::string request_id = {};
  std::int64_t created = 0;  // Unix time
  std::string model = {};    // the name that the request used
  int num_layers = 0, experts_per_token = 0;
  std::vector<int> moe_layers = {};  // their indices
  // The name of the weights that answer, which a trainer gives them.
  const Guarded<std::string>* weights = nullptr;
};

class ResponseWriter {
 public:
  ResponseWriter(const ApiRequest& request, ResponseInfo info, const TokenNames& names)
      : request_(request), info_(std::move(info)), names_(names) {}
  virtual ~ResponseWriter() = default;

  virtual Json whole(const Answer& answer) = 0;

  // Streamed. Each appends events to `out`; `answer` is what is known so far.
  virtual void begin(const Answer& answer, std::string& out) = 0;
  virtual void piece(const Piece& piece, const Answer& answer, std::string& out) = 0;
  virtual void end(const Answer& answer, std::string& out) = 0;
  virtual void error(const ApiError& error, std::string& out) = 0;
  // Nothing is new, but proxies close connections on which nothing comes.
  virtual void waiting(std::string& out) { out += ": waiting\n\n"; }

 protected:
  const ApiRequest& request_;
  const ResponseInfo info_;
  const TokenNames& names_;
};

// The writer of request.api. `request` and `names` outlive it.
std::unique_ptr<ResponseWriter> make_writer(const ApiRequest& request, ResponseInfo info,
                                            const TokenNames& names);

// "data: JSON\n\n", with "event: NAME\n" before it if there is a name.
void append_event(std::string& out, std::string_view name, std::string_view json);

// OpenAI's "usage".
Json openai_usage(const Answer& answer);

// The id of one of several choices, where an API gives them ids.
std::string choice_id(const std::string& answer, int choice);

// "call_" and 24 letters, the same for the same answer and index.
std::string call_id(const ResponseInfo& info, int choice, int index);

// How log-probabilities name a token: by its text, or with `as_ids` by "token_id:" and its id, as
// vLLM does.
std::string name_of(TokenId id, const TokenNames& names, bool as_ids);

// [{"token", "logprob", "bytes", "top_logprobs": [...]}, ...]: of OpenAI's chat and responses.
Json::Array logprobs_json(const std::vector<TokenScore>& scores, const TokenNames& names,
                          bool as_ids = false);

// Log-probabilities in JSON have no infinities.
double finite_logprob(float logprob);

}  // namespace glint
