#include "train/sft_data.h"

#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "base/json.h"
#include "base/line_file.h"
#include "base/str.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "train/data_row.h"

namespace glint {
namespace {

using Ids = std::vector<TokenId>;

std::size_t common_prefix(const Ids& a, const Ids& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class Reader {
 public:
  Reader(const SftFile& file, Tokenizer tokenizer)
      : file_(file), tokenizer_(std::move(tokenizer)) {}

  Result<SftData> read() {
    GLINT_TRY(const LineFile file, read_lines(file_.path));
    SftData data;
    data.hash = fnv1a(*file.contents);
    for (const LineFile::Line& line : file.lines) {
      GLINT_TRY(TrainSequence sequence, parse(line.text).in(file.where(line)));
      data.sequences.push_back(std::move(sequence));
    }
    if (data.sequences.empty()) return invalid(str(file_.path, " holds nothing to learn from"));
    return data;
  }

 private:
  Result<TrainSequence> parse(std::string_view line) {
    GLINT_TRY(const Json json, parse_data_row(line));
    const Json *messages = json.find("messages"), *text = json.find("text");
    const Json *prompt = json.find("prompt"), *completion = json.find("completion");
    const bool is_pair = prompt && completion;
    if ((messages != nullptr) + (text != nullptr) + is_pair != 1) {
      return invalid(
          "expected an object with \"messages\", or with \"prompt\" and \"completion\", or with "
          "\"text\"");
    }
    TrainSequence sequence;
    if (messages) {
      GLINT_TRY(sequence, conversation(json, *messages, 0));
    } else if (text) {
      if (!text->is_string()) return invalid(str("\"text\" is ", text->kind()));
      GLINT_TRY(sequence, texts("", text->as_string()));
    } else if (prompt->is_array() && completion->is_array()) {
      Json all = *prompt;
      for (const Json& message : completion->as_array()) all.as_array().push_back(message);
      GLINT_TRY(sequence, conversation(json, all, prompt->as_array().size()));
    } else if (prompt->is_string() && completion->is_string()) {
      GLINT_TRY(sequence, texts(prompt->as_string(), completion->as_string()));
    } else {
      return invalid("\"prompt\" and \"completion\" are not two texts, or two lists of messages");
    }
    if (sequence.size() > file_.max_tokens) {
      return invalid(str("it has ", sequence.size(), " tokens, and the model reads ",
                         file_.max_tokens, "; leave it out or cut it"));
    }
    if (sequence.size() < 2 || std::none_of(sequence.weights.begin() + 1, sequence.weights.end(),
                                            [](float weight) { return weight != 0; })) {
      return invalid(
          "there is nothing in it to learn: no token of an assistant, or none but the "
          "first");
    }
    return sequence;
  }

  bool is_end(TokenId id) const { return std::ranges::count(file_.ends, id) > 0; }

  Result<TrainSequence> texts(std::string_view prompt, std::string_view completion) {
    GLINT_TRY(Ids ids, tokenizer_.encode(prompt));
    const std::size_t begin = ids.size();
    GLINT_TRY(const Ids more, tokenizer_.encode(completion));
    ids.insert(ids.end(), more.begin(), more.end());
    if (ids.empty() || !is_end(ids.back())) ids.push_back(file_.ends.front());
    std::vector<float> weights(ids.size(), 1);
    std::fill_n(weights.begin(), begin, 0.0f);
    return TrainSequence{.ids = std::move(ids), .weights = std::move(weights)};
  }

  // The first `count` messages, or all; `generates`: up to where an assistant would begin.
  Result<Ids> rendered(const Json& line, const Json& messages, std::size_t count, bool generates) {
    const auto& all = messages.as_array();
    GLINT_TRY(Json kwargs, template_kwargs_of(line));
    kwargs.set("add_generation_prompt", generates);
    const Json* tools = line.find("tools");
    const Json part = Json::Array(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    const Result<std::string> text = template_->render(part, tools ? *tools : Json(), kwargs);
    if (!text.ok()) return Error(text.error()).in("the chat template");
    return tokenizer_.encode(text.value());
  }

  static Result<bool> is_learnt(const Json& message, std::size_t index) {
    const Json* role = message.find("role");
    if (!role || !role->is_string()) return invalid(str("message ", index + 1, " has no \"role\""));
    const Json* weight = message.find("weight");
    if (!weight || weight->is_null()) return *role == Json("assistant");
    if (!weight->is_number() || (weight->as_double() != 0 && weight->as_double() != 1)) {
      return invalid(str("\"weight\" of message ", index + 1, " is neither 0 nor 1"));
    }
    return *role == Json("assistant") && weight->as_double() == 1;
  }

  static bool has_thought(const Json& message) {
    const Json *thought = message.find("reasoning_content"), *content = message.find("content");
    return (thought && thought->is_string() && !thought->as_string().empty()) ||
           (content && content->is_string() &&
            content->as_string().find("</think>") != std::string::npos);
  }

  // Learns from the assistants' messages from number `first` on.
  Result<TrainSequence> conversation(const Json& line, const Json& given, std::size_t first) {
    if (!given.is_array() || given.as_array().empty())
      return invalid("\"messages\" is no list of messages");
    if (!template_) {
      GLINT_TRY(template_, ChatTemplate::open(file_.dir));
    }
    Json::Array plain = given.as_array();
    for (Json& message : plain) {
      if (!message.is_object()) return invalid("a message is no object");
      std::erase_if(message.as_object(),
                    [](const auto& member) { return member.first == "weight"; });
    }
    const Json* tools = line.find("tools");
    GLINT_TRY(const Json messages, file_.prepare(plain, tools ? *tools : Json()));
    const auto& all = messages.as_array();
    GLINT_CHECK(all.size() == given.as_array().size(), "a message was lost");
    GLINT_TRY(Ids ids, rendered(line, messages, all.size(), false));
    const Json* last = all.back().find("role");
    if (last && *last == Json("assistant") && (ids.empty() || !is_end(ids.back()))) {
      ids.push_back(end_of(all.back()));
    }
    std::vector<float> weights(ids.size(), 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      GLINT_TRY(const bool learnt, is_learnt(given.as_array()[i], i));
      if (!learnt || i < first) continue;
      GLINT_TRY(const Ids before, rendered(line, messages, i, false));
      GLINT_TRY(const Ids prompt, rendered(line, messages, i, true));
      // Not every message that follows begins with a token that ends an answer.
      GLINT_TRY(const Ids through, rendered(line, messages, i + 1, false));
      const bool is_prefix = common_prefix(through, ids) == through.size();
      if (common_prefix(before, ids) != before.size() || (!is_prefix && has_thought(all[i]))) {
        return invalid(str("the chat template writes message ", i + 1,
                           ", or what comes before it, differently when more follows (as thoughts "
                           "of earlier turns); split the conversation, give that message "
                           "\"weight\": 0, or give \"chat_template_kwargs\" such as "
                           "{\"clear_thinking\": false}"));
      }
      const std::size_t end = is_prefix ? through.size() : ids.size();
      for (std::size_t t = common_prefix(prompt, ids); t < ids.size(); ++t) {
        if (t >= end && !is_end(ids[t])) break;
        weights[t] = 1;
        if (is_end(ids[t])) break;
      }
    }
    return TrainSequence{.ids = std::move(ids), .weights = std::move(weights)};
  }

  // The tag of whoever speaks next, where that is what ends an answer, as in GLM's layout.
  TokenId end_of(const Json& message) const {
    const Json* calls = message.find("tool_calls");
    const bool has_calls = calls && calls->is_array() && !calls->as_array().empty();
    const auto tag = tokenizer_.token_to_id(has_calls ? "<|observation|>" : "<|user|>");
    return tag && is_end(*tag) ? *tag : file_.ends.front();
  }

  const SftFile& file_;
  const Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
};

}  // namespace

Result<SftData> read_sft_data(const SftFile& file) {
  GLINT_CHECK(!file.ends.empty(), "an answer has an end");
  GLINT_TRY(Tokenizer tokenizer, Tokenizer::open(file.dir));
  return Reader(file, std::move(tokenizer)).read();
}

}  // namespace glint
