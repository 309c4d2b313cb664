#include "cli/remote_reward.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/line_program.h"
#include "base/seconds.h"
#include "base/str.h"
#include "net/http_client.h"
#include "net/server_url.h"

namespace glint {
namespace {

using Tell = std::function<void(const std::string&)>;

constexpr int kAtOnce = 16;
constexpr double kLookSeconds = 0.1;  // between looks whether answers are wanted
// An answer that gets no reward is asked about again after 1 s, 2 s, 4 s ... (slime's numbers).
constexpr int kMostAttempts = 10;
constexpr double kLongestPause = 30;

Result<double> number_of(const std::string& who, const std::string& text, const std::string& key) {
  const Result<Json> json = parse_json(text);
  const Json* number = json.ok() ? &json.value() : nullptr;
  if (number && !key.empty()) number = number->is_object() ? number->find(key) : nullptr;
  if (!number || !number->is_number() || !(std::abs(number->as_double()) <= 1e30)) {
    const std::string form =
        key.empty() ? std::string("number, up to 1e30; --reward-key takes one out of an object")
                    : str("object whose ", quoted(key), " is a number, up to 1e30");
    return unavailable(
        str(who, " answers ", quoted(text.substr(0, 80)), "; a reward is a JSON ", form));
  }
  return number->as_double();
}

// Another attempt may do better: the server is away, busy, or has failed.
bool may_pass(const Result<HttpResponse>& answer) {
  if (!answer.ok()) return true;
  const int status = answer.value().status;
  return status >= 500 || status == 429 || status == 408;
}

Result<double> reward_of(const std::string& url, const std::string& key,
                         const Result<HttpResponse>& answer) {
  if (!answer.ok()) return unavailable(answer.error().message);
  const HttpResponse& response = answer.value();
  if (response.status / 100 != 2)
    return unavailable(str(url, " answers with status ", response.status));
  return number_of(url, response.body, key);
}

std::string question_of(const AnswerToGrade& answer) {
  return dump_json(Json::Object{
      {"prompt", answer.prompt}, {"response", answer.response}, {"label", answer.label}});
}

// The exchanges of one call.
class Grading {
 public:
  Grading(const std::string& url, const std::string& key, double seconds, const Tell& tell,
          const std::vector<AnswerToGrade>& answers, const std::function<bool()>& goes_on)
      : url_(url),
        key_(key),
        seconds_(seconds),
        tell_(tell),
        answers_(answers),
        goes_on_(goes_on),
        client_(parse_server_url(url).value().origin,
                {.read_seconds = seconds, .max_connections = kAtOnce}),
        rewards_(answers.size()) {
    client_.after(seconds, [this, seconds] {
      if (!failure_)
        failure_ =
            unavailable(str(url_, " has graded ", done_, " of ", answers_.size(), " answers in ",
                            format_double(seconds), " s; give it more by --rm-timeout"));
      client_.stop();
    });
  }

  Result<std::vector<double>> run() {
    for (int i = 0; i < kAtOnce; ++i) start_next();
    look();
    client_.run();
    if (failure_) return *failure_;
    return std::move(rewards_);
  }

 private:
  void look() {
    client_.after(kLookSeconds, [this] {
      if (goes_on_()) return look();
      failure_ = unavailable("interrupted");
      client_.stop();
    });
  }

  void start_next() {
    if (next_ < answers_.size()) ask(next_++, 1);
  }

  void ask(std::size_t i, int attempt) {
    const AnswerToGrade& answer = answers_[i];
    client_.start({.method = "POST",
                   .target = url_,
                   .headers = {{"content-type", "application/json"}},
                   .body = question_of(answer),
                   .on_done = [this, i, attempt](const Result<HttpResponse>& response) {
                     take(i, attempt, response);
                   }});
  }

  void take(std::size_t i, int attempt, const Result<HttpResponse>& response) {
    const Result<double> reward = reward_of(url_, key_, response);
    if (reward.ok()) {
      rewards_[i] = reward.value();
      if (++done_ == answers_.size()) return client_.stop();
      return start_next();
    }
    const double pause = std::min(std::ldexp(1, attempt - 1), kLongestPause);
    if (may_pass(response) && attempt < kMostAttempts && seconds_since(begin_) + pause < seconds_) {
      if (!std::exchange(has_told_, true)) {
        tell_(str(reward.error().message, "; it is asked again, for ", format_double(seconds_),
                  " s at most (--rm-timeout)"));
      }
      return client_.after(pause, [this, i, attempt] { ask(i, attempt + 1); });
    }
    failure_ = reward.error();
    if (attempt > 1) failure_->message += str(" (asked ", attempt, " times)");
    client_.stop();
  }

  const std::string &url_, &key_;
  const double seconds_;
  const Tell& tell_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::vector<AnswerToGrade>& answers_;
  const std::function<bool()>& goes_on_;
  HttpClient client_;
  std::vector<double> rewards_;
  std::size_t next_ = 0, done_ = 0;
  bool has_told_ = false;
  std::optional<Error> failure_;
};

}  // namespace

RemoteGrader remote_grader(const std::string& url, double seconds, Tell tell) {
  return [=](const std::vector<AnswerToGrade>& answers, const std::string& key,
             const std::function<bool()>& goes_on) {
    return Grading(url, key, seconds, tell, answers, goes_on).run();
  };
}

RemoteGrader command_grader(const std::string& command, double seconds) {
  const auto program = std::make_shared<std::optional<LineProgram>>();
  return [=](const std::vector<AnswerToGrade>& answers, const std::string& key,
             const std::function<bool()>& goes_on) -> Result<std::vector<double>> {
    if (!*program) {
      GLINT_TRY(LineProgram started, LineProgram::start(command));
      program->emplace(std::move(started));
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> rewards;
    for (const AnswerToGrade& answer : answers) {
      const double left = seconds - seconds_since(begin);
      GLINT_TRY(const std::string line, (*program)->ask(question_of(answer), left, goes_on));
      GLINT_TRY(rewards.emplace_back(), number_of(quoted(command), line, key));
    }
    GLINT_TRY_STATUS((*program)->check_silence());
    return rewards;
  };
}

}  // namespace glint
