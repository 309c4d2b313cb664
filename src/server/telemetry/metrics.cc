#include "server/telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>

#include "base/str.h"
#include "server/telemetry/process_metrics.h"

namespace glint {
namespace {

using prometheus::Labels;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                             1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const Buckets kGap = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                      0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
const Buckets kLatency = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                          30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets kStepTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kTokens = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                         1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
const Buckets kChoices = {1, 2, 5, 10, 20};
const Buckets kHttp = {0.1, 0.5, 1, 5, 10, 30, 60, 300};

// Makes metrics with the dialect's names and the model's labels.
struct MetricMaker {
  MetricMaker(MetricsDialect dialect, const std::string& model_name)
      : sglang(dialect == MetricsDialect::kSglang), labels(labels_of(sglang, model_name)) {}

  static Labels labels_of(bool sglang, const std::string& model_name) {
    if (sglang) return {{"model_name", model_name}};
    return {{"model_name", model_name}, {"engine", "0"}};
  }
  std::string name(const char* vllm, const char* sglang_name) const {
    return sglang ? str("sglang:", sglang_name) : str("vllm:", vllm);
  }
  Labels with(const char* key, const std::string& value) const {
    Labels all = labels;
    all.emplace(key, value);
    return all;
  }

  prometheus::Gauge& gauge(const std::string& name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Family<prometheus::Counter>& counters(const std::string& name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Counter& counter(const std::string& name, const char* help) {
    return counters(name, help).Add(labels);
  }
  prometheus::Histogram& histogram(const std::string& name, const char* help,
                                   const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     buckets);
  }

  const bool sglang;
  const Labels labels;
  prometheus::Registry registry;
};

}  // namespace

// Counters that the engine keeps are raised to its numbers when somebody reads the page.
struct Metrics::Impl : MetricMaker {
  using MetricMaker::MetricMaker;

  static void raise(prometheus::Counter& counter, std::uint64_t value) {
    const double more = static_cast<double>(value) - counter.Value();
    if (more > 0) counter.Increment(more);
  }

  std::mutex reading;  // two readers would raise a counter twice

  prometheus::Gauge& running = gauge(name("num_requests_running", "num_running_reqs"),
                                     "requests that hold pages of the cache");
  prometheus::Gauge& waiting =
      gauge(name("num_requests_waiting", "num_queue_reqs"), "requests that wait for their turn");
  prometheus::Gauge& cache_usage = gauge(name("kv_cache_usage_perc", "token_usage"),
                                         "share of the cache's pages that requests use");
  prometheus::Counter& prompt_tokens = counter(name("prompt_tokens_total", "prompt_tokens_total"),
                                               "prompt tokens of started requests");
  prometheus::Counter& cached_tokens =
      counter(name("prompt_tokens_cached_total", "cached_tokens_total"),
              "prompt tokens found in the cache");
  prometheus::Counter& generated_tokens =
      counter(name("generation_tokens_total", "generation_tokens_total"), "tokens of answers");
  prometheus::Counter& preemptions =
      counter(name("num_preemptions_total", "num_retracted_requests_total"),
              "requests that gave their pages back and ran again");
  prometheus::Histogram& ttft =
      histogram(name("time_to_first_token_seconds", "time_to_first_token_seconds"),
                "seconds from a request's arrival to its first token", kFirstToken);
  prometheus::Histogram& gap =
      histogram(name("inter_token_latency_seconds", "inter_token_latency_seconds"),
                "seconds between two pieces of an answer", kGap);
  prometheus::Histogram& e2e =
      histogram(name("e2e_request_latency_seconds", "e2e_request_latency_seconds"),
                "seconds from a request's arrival to its end", kLatency);
  prometheus::Histogram& queue =
      histogram(name("request_queue_time_seconds", "queue_time_seconds"),
                "seconds that a request waits for its first step", kLatency);
  prometheus::Histogram& prompt_sizes = histogram(
      name("request_prompt_tokens", "prompt_tokens_histogram"), "tokens of a prompt", kTokens);
  prometheus::Histogram& answer_sizes =
      histogram(name("request_generation_tokens", "generation_tokens_histogram"),
                "tokens of an answer", kTokens);
  prometheus::Family<prometheus::Counter>& responses =
      counters(name("http_responses_total", "http_responses_total"), "answers by route and status");
  // Under the names of Python's instrumentation, without labels of the model.
  struct Http {
    prometheus::Family<prometheus::Counter>& requests;
    prometheus::Family<prometheus::Histogram>& durations;
  } http = {counters("http_requests_total", "requests by route, method and class of status"),
            prometheus::BuildHistogram()
                .Name("http_request_duration_seconds")
                .Help("seconds from a request's arrival to the end of its answer")
                .Register(registry)};
  ProcessMetrics process{registry};

  // Former names of metrics, for dashboards made for older versions of vLLM.
  struct OldVllm {
    prometheus::Gauge* cache_usage;
    prometheus::Counter *prefix_queries, *prefix_hits;
    prometheus::Histogram* gap;
  };
  // Only the chosen dialect's metrics are set; the other's are null.
  struct Vllm {
    prometheus::Family<prometheus::Counter>* success;
    prometheus::Family<prometheus::Counter>* accepted_at;
    prometheus::Counter *prefix_queries, *prefix_hits, *corrupted, *drafts, *draft_tokens,
        *accepted_tokens;
    prometheus::Histogram *per_token, *inference, *prefill, *decode, *step, *max_tokens, *n,
        *computed, *longest;
    prometheus::Family<prometheus::Gauge>* cache_config;
    OldVllm old;
  } v = {};
  struct Sglang {
    prometheus::Gauge *throughput, *hit_rate, *used_tokens, *max_tokens, *accept_length;
    prometheus::Counter *requests, *constrained, *aborted;
  } s = {};

  void add_vllm();
  void add_sglang();
  // Null until there are experts that move.
  struct Experts {
    prometheus::Gauge* imbalance;
    prometheus::Counter* moved;
  } experts = {};

  void update(const EngineStats& stats);
  void update(const ExpertPlaces& places);
};

void Metrics::Impl::add_vllm() {
  v.success = &counters("vllm:request_success_total", "finished requests by reason");
  // A rate sees the first of a kind only if there was a zero before it.
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kError})
    v.success->Add(with("finished_reason", name_of(reason)));
  v.accepted_at = &counters("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                            "accepted drafts by their position");
  v.prefix_queries =
      &counter("vllm:prefix_cache_queries_total", "prompt tokens looked up in the cache");
  v.prefix_hits = &counter("vllm:prefix_cache_hits_total", "prompt tokens found in the cache");
  v.corrupted = &counter("vllm:corrupted_requests_total",
                         "requests that failed, as by logits that are no numbers");
  v.drafts = &counter("vllm:spec_decode_num_drafts_total", "steps that verified drafts");
  v.draft_tokens = &counter("vllm:spec_decode_num_draft_tokens_total", "drafts that were verified");
  v.accepted_tokens =
      &counter("vllm:spec_decode_num_accepted_tokens_total", "drafts that were accepted");
  v.per_token = &histogram("vllm:request_time_per_output_token_seconds",
                           "seconds between two tokens of a request, on average", kGap);
  v.inference = &histogram("vllm:request_inference_time_seconds",
                           "seconds from a request's first step to its end", kLatency);
  v.prefill = &histogram("vllm:request_prefill_time_seconds",
                         "seconds from a request's first step to its first token", kLatency);
  v.decode = &histogram("vllm:request_decode_time_seconds",
                        "seconds from a request's first token to its end", kLatency);
  v.step = &histogram("vllm:iteration_tokens_total", "tokens that a step read of prompts and gave",
                      kStepTokens);
  v.max_tokens =
      &histogram("vllm:request_params_max_tokens", "tokens that an answer may have", kTokens);
  v.n = &histogram("vllm:request_params_n", "n that requests asked for", kChoices);
  v.longest = &histogram("vllm:request_max_num_generation_tokens",
                         "tokens of a request's longest answer", kTokens);
  v.old.cache_usage = &gauge("vllm:gpu_cache_usage_perc", "the older name of kv_cache_usage_perc");
  v.old.prefix_queries = &counter("vllm:gpu_prefix_cache_queries_total",
                                  "the older name of prefix_cache_queries_total");
  v.old.prefix_hits =
      &counter("vllm:gpu_prefix_cache_hits_total", "the older name of prefix_cache_hits_total");
  v.old.gap = &histogram("vllm:time_per_output_token_seconds",
                         "the older name of inter_token_latency_seconds", kGap);
  v.cache_config = &prometheus::BuildGauge()
                        .Name("vllm:cache_config_info")
                        .Help("tokens of a page of the cache, and its pages")
                        .Register(registry);
  v.computed = &histogram("vllm:request_prefill_kv_computed_tokens",
                          "prompt tokens that the cache did not hold", kTokens);
}

void Metrics::Impl::add_sglang() {
  s.throughput = &gauge("sglang:gen_throughput", "generated tokens per second, lately");
  s.hit_rate = &gauge("sglang:cache_hit_rate", "share of prompt tokens found in the cache");
  s.used_tokens = &gauge("sglang:num_used_tokens", "tokens that requests hold in the cache");
  s.max_tokens = &gauge("sglang:max_total_num_tokens", "tokens that fit in the cache");
  s.accept_length = &gauge("sglang:spec_accept_length", "tokens of a step with drafts, on average");
  s.requests = &counter("sglang:num_requests_total", "finished requests");
  s.constrained =
      &counter("sglang:num_so_requests_total", "finished requests with structured output");
  s.aborted = &counter("sglang:num_aborted_requests_total", "requests that were aborted");
}

void Metrics::Impl::update(const ExpertPlaces& places) {
  if (!experts.imbalance) {
    experts.imbalance = &gauge("glint:expert_imbalance",
                               "rows of the busiest rank's experts over the mean of all ranks, at "
                               "the last look, where the experts have been moved to");
    experts.moved = &counter("glint:moved_experts_total", "experts that were moved to other slots");
  }
  experts.imbalance->Set(places.imbalance_after);
  raise(*experts.moved, places.moved_experts);
}

void Metrics::Impl::update(const EngineStats& stats) {
  running.Set(stats.num_running);
  waiting.Set(stats.num_waiting);
  cache_usage.Set(stats.total_pages > 0 ? static_cast<double>(stats.used_pages) / stats.total_pages
                                        : 0);
  raise(prompt_tokens, stats.prompt_tokens);
  raise(cached_tokens, stats.cached_prompt_tokens);
  raise(generated_tokens, stats.generated_tokens);
  raise(preemptions, stats.preemptions);
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  if (sglang) {
    s.throughput->Set(stats.tokens_per_second);
    s.hit_rate->Set(ratio(stats.prefix_hits, stats.prefix_queries));
    s.used_tokens->Set(static_cast<double>(stats.used_pages) * stats.page_size);
    s.max_tokens->Set(static_cast<double>(stats.total_pages) * stats.page_size);
    s.accept_length->Set(stats.drafts > 0 ? 1 + ratio(stats.accepted_tokens, stats.drafts) : 0);
    return;
  }
  v.old.cache_usage->Set(cache_usage.Value());
  raise(*v.old.prefix_queries, stats.prefix_queries);
  raise(*v.old.prefix_hits, stats.prefix_hits);
  if (stats.total_pages > 0)
    v.cache_config
        ->Add({{"block_size", std::to_string(stats.page_size)},
               {"num_gpu_blocks", std::to_string(stats.total_pages)},
               {"engine", "0"}})
        .Set(1);
  raise(*v.prefix_queries, stats.prefix_queries);
  raise(*v.prefix_hits, stats.prefix_hits);
  raise(*v.drafts, stats.drafts);
  raise(*v.draft_tokens, stats.drafted_tokens);
  raise(*v.accepted_tokens, stats.accepted_tokens);
  for (std::size_t i = 0; i < stats.accepted_per_position.size(); ++i)
    raise(v.accepted_at->Add(with("position", std::to_string(i))), stats.accepted_per_position[i]);
}

Metrics::Metrics(MetricsDialect dialect, const std::string& model_name)
    : impl_(std::make_unique<Impl>(dialect, model_name)) {
  if (impl_->sglang) {
    impl_->add_sglang();
  } else {
    impl_->add_vllm();
  }
}

Metrics::~Metrics() = default;

void Metrics::http_response(const std::string& method, const std::string& route, int status) {
  Labels labels = impl_->with("route", route);
  labels.emplace("status", std::to_string(status));
  impl_->responses.Add(labels).Increment();
  impl_->http.requests
      .Add({{"handler", route}, {"method", method}, {"status", str(status / 100, "xx")}})
      .Increment();
}

void Metrics::http_duration(const std::string& method, const std::string& route, double seconds) {
  impl_->http.durations.Add({{"handler", route}, {"method", method}}, kHttp).Observe(seconds);
}

void Metrics::first_token(double seconds) { impl_->ttft.Observe(seconds); }

void Metrics::token_gap(double seconds) {
  impl_->gap.Observe(seconds);
  if (!impl_->sglang) impl_->v.old.gap->Observe(seconds);
}

void Metrics::step(int tokens) {
  if (!impl_->sglang) impl_->v.step->Observe(tokens);
}

void Metrics::request_done(const RequestRecord& record) {
  // Refused, by a full queue or for what it asks: its time is none of an answer.
  if (record.status == 400 || record.status == 429) return;
  Impl& m = *impl_;
  const bool timed = record.is_timed();
  m.e2e.Observe(record.total_s);
  if (timed) m.queue.Observe(record.queue_s);
  m.prompt_sizes.Observe(record.usage.prompt_tokens);
  for (const int tokens : record.answer_tokens) m.answer_sizes.Observe(tokens);
  bool aborted = false;
  for (const std::string& reason : record.finish_reasons) aborted = aborted || reason == "abort";
  if (m.sglang) {
    m.s.requests->Increment();
    if (record.constrained) m.s.constrained->Increment();
    if (aborted) m.s.aborted->Increment();
    return;
  }
  if (record.status == 500) m.v.corrupted->Increment();
  for (const std::string& reason : record.finish_reasons)
    m.v.success->Add(m.with("finished_reason", reason)).Increment();
  const int longest = record.answer_tokens.empty() ? 0 : std::ranges::max(record.answer_tokens);
  if (timed) {
    m.v.inference->Observe(record.prefill_s + record.decode_s);
    m.v.prefill->Observe(record.prefill_s);
    m.v.decode->Observe(record.decode_s);
    if (longest > 1) m.v.per_token->Observe(record.decode_s / (longest - 1));
  }
  m.v.max_tokens->Observe(record.max_tokens);
  m.v.n->Observe(record.n);
  m.v.longest->Observe(longest);
  m.v.computed->Observe(record.usage.prompt_tokens - record.usage.cached_tokens);
}

std::string Metrics::text(const EngineStats& stats, const std::optional<ExpertPlaces>& experts) {
  const std::lock_guard lock(impl_->reading);
  impl_->update(stats);
  if (experts) impl_->update(*experts);
  impl_->process.update();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

const char* Metrics::content_type() { return "text/plain; version=0.0.4; charset=utf-8"; }

}  // namespace glint
