#include "rl/rollout_state.h"

#include <charconv>

#include "base/str.h"

namespace glint {
namespace {

// One list of members for both directions: a Writer reads the values, a Reader sets them. Numbers
// of a list are one text, "1 2 3": a line of a checkpoint's state, not one each.
class Writer {
 public:
  void operator()(const char* name, const bool& value) { json.set(name, value); }
  void operator()(const char* name, const std::string& value) { json.set(name, value); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const char* name, const T& value) {
    json.set(name, text_of(std::span(&value, 1)));
  }
  template <class T>
  void operator()(const char* name, const std::vector<T>& values);
  template <class T>
  void newer(const char* name, const T& value) {
    (*this)(name, value);
  }

  Json json = Json::Object();

 private:
  template <class T>
  static std::string text_of(std::span<const T> values) {
    std::string text;
    for (const T value : values) {
      char buffer[40];
      const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
      if (!text.empty()) text += ' ';
      text.append(buffer, end);
    }
    return text;
  }
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void operator()(const char* name, bool& value) {
    const Json* const found = json_.find(name);
    if (found && found->is_bool()) {
      value = found->as_bool();
    } else {
      fail(name);
    }
  }
  void operator()(const char* name, std::string& value) {
    const Json* const found = json_.find(name);
    if (found && found->is_string()) {
      value = found->as_string();
    } else {
      fail(name);
    }
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const char* name, T& value) {
    std::vector<T> one;
    (*this)(name, one);
    if (one.size() == 1) {
      value = one[0];
    } else {
      fail(name);
    }
  }
  template <class T>
  void operator()(const char* name, std::vector<T>& values);
  // States of before lack it.
  template <class T>
  void newer(const char* name, T& value) {
    if (json_.find(name)) (*this)(name, value);
  }

  Status status = Ok{};

 private:
  void fail(const char* name) {
    status = invalid(str("the state of rollouts has no sound ", quoted(name)));
  }

  const Json& json_;
};

template <class V, class T>
void visit(V& v, T& x) requires std::same_as<std::remove_const_t<T>, Rollout> {
  v("answer", x.answer);
  v("log_probs", x.log_probs);
  v("versions", x.versions);
  v("chosen", x.chosen);
  v("routes", x.routes);
  v("finished", x.finished);
  v("truncated", x.truncated);
  v("turns", x.turns);
  v("cached_tokens", x.cached_tokens);
  v("drafted", x.drafted);
  v("accepted", x.accepted);
}

template <class V, class T>
void visit(V& v, T& x) requires std::same_as<std::remove_const_t<T>, AnswerGroup> {
  v("at", x.at);
  v("answers", x.answers);
}

template <class V, class T>
void visit(V& v, T& x) requires std::same_as<std::remove_const_t<T>, GradedAnswer> {
  v("ids", x.tokens.ids);
  v("token_weights", x.tokens.weights);
  v("routes", x.tokens.routes);
  v("num_prompt", x.num_prompt);
  v("served_log_probs", x.served_log_probs);
  v("old_log_probs", x.old_log_probs);
  v("ref_log_probs", x.ref_log_probs);
  v("mismatches", x.mismatches);
  v("advantage", x.advantage);
  v("num_stale", x.num_stale);
}

template <class V, class T>
void visit(V& v, T& x) requires std::same_as<std::remove_const_t<T>, AnswerSample> {
  v("line", x.line);
  v("prompt", x.prompt);
  v("label", x.label);
  v("answer", x.answer);
  v("reward", x.reward);
  v("truncated", x.truncated);
}

template <class V, class T>
void visit(V& v, T& x) requires std::same_as<std::remove_const_t<T>, GrpoBatch> {
  v("answers", x.answers);
  v("rewards", x.rewards);
  v("tokens", x.counts.tokens);
  v("longest", x.counts.longest);
  v("truncated", x.counts.truncated);
  v("prompt_tokens", x.counts.prompt_tokens);
  v("cached_tokens", x.counts.cached_tokens);
  v("turns", x.counts.turns);
  v.newer("repeating", x.counts.repeating);
  v("drafted", x.counts.drafted);
  v("accepted", x.counts.accepted);
  v("groups", x.counts.groups);
  v("groups_at_lowest", x.counts.groups_at_lowest);
  v("groups_at_highest", x.counts.groups_at_highest);
  v("staleness", x.counts.staleness);
  v("max_staleness", x.counts.max_staleness);
  v("samples", x.samples);
  v("parity_tokens", x.parity.tokens);
  v("parity_differ", x.parity.differ);
  v("parity_difference", x.parity.difference);
  v.newer("parity_kl", x.parity.kl);
  v.newer("parity_ess_ratio", x.parity.ess_ratio);
  v.newer("parity_entropy", x.parity.entropy);
  v("version", x.version);
}

template <class T>
void Writer::operator()(const char* name, const std::vector<T>& values) {
  if constexpr (std::is_arithmetic_v<T>) {
    json.set(name, text_of(std::span(values)));
  } else {
    Json::Array all;
    for (const T& value : values) {
      Writer one;
      visit(one, value);
      all.push_back(std::move(one.json));
    }
    json.set(name, std::move(all));
  }
}

template <class T>
void Reader::operator()(const char* name, std::vector<T>& values) {
  values.clear();
  const Json* const found = json_.find(name);
  if constexpr (std::is_arithmetic_v<T>) {
    if (!found || !found->is_string()) return fail(name);
    const std::string& text = found->as_string();
    const char *at = text.data(), *const end = at + text.size();
    while (at != end) {
      T value = {};
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc() || (next != end && *next != ' ')) return fail(name);
      values.push_back(value);
      at = next + (next != end);
    }
  } else {
    if (!found || !found->is_array()) return fail(name);
    for (const Json& one : found->as_array()) {
      Reader reader(one);
      visit(reader, values.emplace_back());
      if (!reader.status.ok()) status = reader.status;
    }
  }
}

}  // namespace

Json to_json(const std::vector<AnswerGroup>& groups) {
  Writer writer;
  writer("groups", groups);
  return std::move(writer.json);
}

Json to_json(const GrpoBatch& batch) {
  Writer writer;
  visit(writer, batch);
  return std::move(writer.json);
}

Result<std::vector<AnswerGroup>> answer_groups_of(const Json& json) {
  std::vector<AnswerGroup> groups;
  Reader reader(json);
  reader("groups", groups);
  GLINT_TRY_STATUS(reader.status);
  return groups;
}

Result<GrpoBatch> grpo_batch_of(const Json& json) {
  GrpoBatch batch;
  Reader reader(json);
  visit(reader, batch);
  GLINT_TRY_STATUS(reader.status);
  return batch;
}

}  // namespace glint
