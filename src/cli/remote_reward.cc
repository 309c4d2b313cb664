#include "cli/remote_reward.h"

#include <cmath>
#include <optional>

#include "base/cut_text.h"
#include "base/json.h"
#include "base/str.h"
#include "net/http_client.h"
#include "net/server_url.h"

namespace glint {
namespace {

constexpr int kAtOnce = 16;

Error unavailable(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

Result<double> reward_of(const std::string& url, Result<HttpResponse> answer) {
  if (!answer.ok()) return unavailable(answer.error().message);
  const HttpResponse& response = answer.value();
  if (response.status != 200)
    return unavailable(str(url, " answers with status ", response.status));
  const Result<Json> json = parse_json(response.body);
  if (!json.ok() || !json.value().is_number() || !std::isfinite(json.value().as_double())) {
    return unavailable(
        str(url, " answers ", quoted(response.body.substr(0, 80)), "; a reward is a JSON number"));
  }
  return json.value().as_double();
}

// The exchanges of one call.
class Grading {
 public:
  Grading(const std::string& url, double seconds, const std::vector<AnswerToGrade>& answers)
      : url_(url),
        answers_(answers),
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
    client_.run();
    if (failure_) return *failure_;
    return std::move(rewards_);
  }

 private:
  void start_next() {
    if (next_ == answers_.size()) return;
    const std::size_t i = next_++;
    const AnswerToGrade& answer = answers_[i];
    client_.start(
        {.method = "POST",
         .target = url_,
         .headers = {{"content-type", "application/json"}},
         .body = dump_json(Json::Object{
             {"prompt", answer.prompt}, {"response", answer.response}, {"label", answer.label}}),
         .on_done = [this, i](Result<HttpResponse> response) {
           const Result<double> reward = reward_of(url_, std::move(response));
           if (!reward.ok()) {
             failure_ = reward.error();
             return client_.stop();
           }
           rewards_[i] = reward.value();
           if (++done_ == answers_.size()) return client_.stop();
           start_next();
         }});
  }

  const std::string& url_;
  const std::vector<AnswerToGrade>& answers_;
  HttpClient client_;
  std::vector<double> rewards_;
  std::size_t next_ = 0, done_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

RemoteGrader remote_grader(const std::string& url, double seconds) {
  return [url, seconds](const std::vector<AnswerToGrade>& answers) {
    return Grading(url, seconds, answers).run();
  };
}

}  // namespace glint
