#include "cli/serve_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/contains.h"
#include "base/file.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/backends.h"
#include "cli/option_checks.h"
#include "net/server_url.h"
#include "ops/kv_layout.h"
#include "runtime/rank_peers.h"
#include "text/template/chat_template.h"

namespace glint {
namespace {

// A number and the letters after it.
bool split_number(const std::string& text, double& number, std::string& unit) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  unit.assign(end, text.data() + text.size());
  return error == std::errc() && number >= 0;
}

Status check_number(bool right, std::string_view option, double value, std::string_view range) {
  if (right) return Ok{};
  return invalid(str("--", option, " is ", value, "; it must be ", range));
}

// The fields that a configuration file repeats from config.json.
Status check_expected(const TranslatedArgs& given, const ModelConfig& config) {
  for (const auto& [field, value] : given.expected) {
    std::string have;
    if (field == "sparse attention") have = "dsa";
    if (field == "index_n_heads") have = std::to_string(config.index_n_heads);
    if (field == "index_head_dim") have = std::to_string(config.index_head_dim);
    if (field == "index_topk") have = std::to_string(config.index_topk);
    if (value != have)
      return invalid(str(field, " is ", value, " in the options, but ", have,
                         " in the checkpoint's config.json; remove the option"));
  }
  return Ok{};
}

Status check_quantization(const std::string& wanted, const std::string& formats) {
  if (wanted.empty()) return Ok{};
  const bool fp4 = wanted == "modelopt_fp4" || wanted == "modelopt" || wanted == "nvfp4" ||
                   wanted == "compressed-tensors";
  const bool fp8 = wanted == "fp8" || wanted == "compressed-tensors" || wanted == "modelopt";
  if (!fp4 && !fp8)
    return invalid(str("--quantization ", quoted(wanted),
                       " is not known; the formats are fp8, modelopt_fp4, compressed-tensors"));
  if ((fp4 && formats.find("nvfp4") != std::string::npos) ||
      (fp8 && formats.find("fp8") != std::string::npos))
    return Ok{};
  return invalid(str("--quantization ", wanted, " does not fit the checkpoint, whose weights are ",
                     formats, "; `glint quantize` makes one that does"));
}

// The context length that was asked for; 0 asks for all that the model has.
Result<int> resolve_length(std::int64_t wanted, const ModelConfig& config) {
  const std::int64_t has = config.max_position_embeddings;
  if (wanted > has)
    return invalid(str("--max-model-len is ", wanted, ", but the checkpoint has ", has,
                       " positions (max_position_embeddings); give at most that"));
  if (wanted != 0 && wanted < 2)
    return invalid(str("--max-model-len is ", wanted, "; it must be 2 or more"));
  return static_cast<int>(wanted == 0 ? has : wanted);
}

Status check_drafts(const std::string& spec, const ServeFacts& facts) {
  if (facts.max_drafts == 0 || facts.has_mtp) return Ok{};
  return invalid(str("--spec ", spec, " needs the MTP layer, which this checkpoint does not have"));
}

Result<std::string> parser_name(std::string_view option, const std::string& name,
                                const char* by_default) {
  if (name == "auto" || name.empty()) return std::string(by_default);
  if (name == "none") return std::string();
  if (name == "glm") return std::string("glm47");  // SGLang's
  if (name == "glm45" || name == "glm47") return name;
  return invalid(str("--", option, " ", quoted(name),
                     " is a format that is not read here; use glm45, glm47, auto or none"));
}

Result<std::vector<std::string>> read_keys(const ServeOptions& options, const ServeFacts& facts) {
  const bool given = !options.api_key.empty() || !options.api_key_file.empty();
  std::vector<std::string> keys = given ? options.api_key : facts.environment_keys;
  if (!options.api_key_file.empty()) {
    GLINT_TRY(const std::string text, read_file(options.api_key_file, std::size_t{1} << 20));
    for (std::string_view line : split(text, '\n')) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      if (!line.empty()) keys.emplace_back(line);
    }
    if (keys.empty()) return invalid(str(options.api_key_file, " holds no key"));
  }
  if (contains(keys, ""))
    return invalid("an API key is empty; give a text, or none to serve without keys");
  return keys;
}

// A path that ends in no name has that of the folder which it leads to; a link has its own.
std::string last_name(const std::filesystem::path& path) {
  if (path.filename() != "." && path.filename() != "..") return path.filename();
  std::error_code error;
  return std::filesystem::weakly_canonical(path, error).filename();
}

// The last name is shown; the path or id as given and the user's names are accepted too.
std::vector<std::string> served_names(const ServeOptions& options) {
  std::vector<std::string> names = options.served_model_name;
  const auto add = [&](const std::string& given) {
    std::string name = lossy_utf8(given);
    if (!name.empty() && !contains(names, name)) names.push_back(std::move(name));
  };
  std::string given = options.model;
  while (given.size() > 1 && (given.ends_with('/') || given.ends_with("/."))) given.pop_back();
  add(last_name(given));
  add(given);
  add(options.model);
  return names;
}

Result<GenerationConfig> sampling_defaults(const ServeOptions& o, const ServeFacts& facts) {
  GenerationConfig defaults = o.generation_config == "auto" ? facts.generation : GenerationConfig{};
  if (o.override_generation_config.empty()) return defaults;
  constexpr const char* kOption = "--override-generation-config";
  GLINT_TRY(const Json own, parse_json(o.override_generation_config).in(kOption));
  if (!own.is_object()) return invalid(str(kOption, " must be a JSON object"));
  constexpr std::string_view kNames[] = {"temperature",        "top_p",    "top_k", "min_p",
                                         "repetition_penalty", "do_sample"};
  for (const auto& [name, value] : own.as_object())
    if (std::ranges::find(kNames, name) == std::end(kNames))
      return invalid(str(kOption, " has ", quoted(name),
                         "; it may have temperature, top_p, top_k, ",
                         "min_p, repetition_penalty and do_sample"));
  return parse_generation_config(own, facts.config.vocab_size, defaults).in(kOption);
}

Status check_origin(const std::string& origin) {
  const std::size_t host = origin.find("://");
  const bool has_host = host != origin.npos && origin.find('/', host + 3) == origin.npos;
  if (has_host || origin == "*" || origin == "null") return Ok{};
  return invalid(str("--allowed-origins is ", quoted(origin),
                     "; expected *, or an origin such as https://example.com, without a path"));
}

// Each is an origin, or a JSON list of some, as vLLM takes them.
Result<std::vector<std::string>> read_origins(const std::vector<std::string>& given) {
  std::vector<std::string> origins;
  for (const std::string& each : given) {
    if (!each.starts_with('[')) {
      origins.push_back(each);
      continue;
    }
    GLINT_TRY(const Json list, parse_json(each).in("--allowed-origins"));
    for (const Json& origin : list.as_array())
      origins.push_back(origin.is_string() ? origin.as_string() : dump_json(origin));
  }
  for (const std::string& origin : origins) GLINT_TRY_STATUS(check_origin(origin));
  return origins;
}

Result<ServerConfig> server_config(const ServeOptions& o, const ServeFacts& facts,
                                   int max_model_len) {
  ServerConfig s;
  s.http.host = o.host;
  s.http.port = o.port;
  s.http.limits.max_body_bytes = static_cast<std::size_t>(o.max_body_mb * (1 << 20));
  // One that is allowed is not too much for all together.
  s.http.limits.max_total_body_bytes =
      std::max(s.http.limits.max_total_body_bytes, s.http.limits.max_body_bytes);
  s.http.limits.body_bound = "--max-body-mb";
  s.http.limits.max_connections = o.max_connections;
  if (o.ssl_certfile.empty() != o.ssl_keyfile.empty())
    return invalid("--ssl-certfile and --ssl-keyfile go together; give both");
  s.http.tls_certificate = o.ssl_certfile;
  s.http.tls_key = o.ssl_keyfile;
  s.served_names = served_names(o);
  s.num_listed_names = std::max<std::size_t>(1, o.served_model_name.size());
  s.model_path = o.model;
  s.max_model_len = max_model_len;
  GLINT_TRY(s.access.api_keys, read_keys(o, facts));
  if (contains(o.admin_api_key, ""))
    return invalid("--admin-api-key is empty; give a text, or leave it out");
  s.access.admin_api_keys = o.admin_api_key;
  if (!o.allowed_origins.empty()) {
    GLINT_TRY(s.access.allowed_origins, read_origins(o.allowed_origins));
  }
  for (const std::string& name : o.allowed_hosts) s.access.allowed_hosts.push_back(lower(name));
  for (const std::string& name : {o.host, facts.host_name})
    if (!name.empty()) s.access.allowed_hosts.push_back(lower(name));
  if (!o.profile_dir.empty() && !is_directory(o.profile_dir))
    return invalid(str("--profile-dir ", quoted(o.profile_dir, 400), " is no folder; create it"));
  s.profile_dir = o.profile_dir;
  s.plain_content = o.plain_content;
  GLINT_TRY(const GenerationConfig generation, sampling_defaults(o, facts));
  s.defaults.sampling.temperature = generation.temperature;
  s.defaults.sampling.top_p = generation.top_p;
  s.defaults.sampling.top_k = generation.top_k;
  s.defaults.sampling.min_p = generation.min_p;
  s.defaults.sampling.repetition_penalty = generation.repetition_penalty;
  s.defaults.seed = o.seed;
  if (!o.default_chat_template_kwargs.empty()) {
    GLINT_TRY(s.defaults.chat_template_kwargs,
              parse_json(o.default_chat_template_kwargs).in("--default-chat-template-kwargs"));
    if (!s.defaults.chat_template_kwargs.is_object())
      return invalid("--default-chat-template-kwargs must be a JSON object");
    if (const char* name = find_reserved_kwarg(s.defaults.chat_template_kwargs))
      return invalid(str("--default-chat-template-kwargs has ", quoted(name),
                         ", which every request sets itself; leave it out"));
    const Json* thinking = s.defaults.chat_template_kwargs.find("enable_thinking");
    if (thinking && !thinking->is_bool())
      return invalid(str("--default-chat-template-kwargs has enable_thinking, which is ",
                         thinking->kind(), "; expected true or false"));
  }
  s.higher_priority_first = o.priority_order == "higher";
  // DeepSeek marks thoughts as GLM does.
  const bool is_deepseek =
      facts.config.model_type == "deepseek_v32" &&
      contains({"deepseek_v3", "deepseek-v3", "deepseek_r1", "deepseek-r1"}, o.reasoning_parser);
  GLINT_TRY(s.parsers.reasoning,
            parser_name("reasoning-parser", is_deepseek ? "glm45" : o.reasoning_parser, "glm45"));
  GLINT_TRY(s.parsers.tools, parser_name("tool-call-parser", o.tool_call_parser, "glm47"));
  s.max_logprobs = max_logprobs(o, facts.config);
  s.defaults.stream_interval = o.stream_interval;
  s.max_queue_seconds = o.max_queue_seconds;
  s.text_threads = o.text_threads;
  s.grammars.command = {"/proc/self/exe", kGrammarProcessArgument};
  s.grammars.budget.seconds = o.grammar_timeout;
  GLINT_TRY(s.grammars.budget.bytes, parse_bytes(o.grammar_memory).in("--grammar-memory"));
  s.grammars.at_once = std::max(3, o.text_threads);
  s.grammars.slow_at_once = std::max(2, o.text_threads / 2);
  s.report.metrics =
      o.metrics_dialect == "sglang" ? MetricsDialect::kSglang : MetricsDialect::kVllm;
  s.report.log.requests = o.log_requests;
  s.report.log.prompts = o.log_prompts;
  s.report.otlp_endpoint = o.otlp_traces_endpoint;
  return s;
}

// Reading a body takes up to ten times its bytes, and several may wait: where little memory is left
// beside weights and cache, bodies must be smaller.
void limit_bodies(const ServeMemory& memory, std::int64_t cache_bytes, HttpLimits& limits) {
  const std::int64_t taken = memory.weights + memory.working + cache_bytes;
  const std::int64_t left = memory.host_available - (memory.on_host ? taken : 0);
  const auto share = [left](std::int64_t part) {
    return static_cast<std::size_t>(std::max(left / part, std::int64_t{4} << 20));
  };
  limits.max_total_body_bytes = std::min(limits.max_total_body_bytes, share(4));
  if (share(16) >= limits.max_body_bytes) return;
  limits.max_body_bytes = share(16);
  limits.body_bound = "the memory beside weights and cache allows no more";
}

std::string describe_ranks(const FittedShape& ranks) {
  const MeshShape& shape = ranks.shape;
  std::string text = shape.tp == 1 ? "" : str(shape.tp, " that divide every matrix");
  if (shape.dp > 1) text += str(text.empty() ? "" : ", in each of ", shape.dp, " replicas");
  if (shape.cp > 1) text += str(", of which ", shape.cp, " share each sequence");
  if (shape.ep > 1) text += ", which share the experts";
  if (shape.moves_experts) text += str(" by their load, ", shape.redundant_experts, " twice");
  if (shape.pp > 1) text += str(text.empty() ? "" : ", in each of ", shape.pp, " stages of layers");
  if (text.empty()) text = "1";
  if (shape.num_slices() > 1) text += str(", sums in ", shape.num_slices(), " slices");
  return ranks.note.empty() ? text : str(text, " (", ranks.note, ")");
}

std::vector<std::pair<std::string, std::string>> table(const ServeOptions& o,
                                                       const ServeFacts& facts,
                                                       const ServePlan& plan) {
  const ServerConfig& s = plan.server;
  return {
      {"model", str(facts.dir, " (", facts.config.model_type, ", ", facts.formats, ")")},
      {"served as", joined(s.served_names, ", ")},
      {"backend", resolve_backend(o.backend)},
      {"ranks", describe_ranks(facts.ranks)},
      {"compute, KV cache, index",
       str(o.dtype, ", ", o.kv_dtype.empty() ? o.dtype : o.kv_dtype, ", ", index_of(o))},
      {"context", str(with_commas(plan.max_model_len), " of ",
                      with_commas(facts.config.max_position_embeddings), " tokens")},
      {"KV cache",
       str(with_commas(std::int64_t{plan.engine.cache.num_pages} * kPageSize), " tokens",
           facts.ranks.shape.num_sequence_groups() > 1 ? " of each replica, " : ", ",
           human_bytes(plan.engine.cache.num_pages * facts.memory.page))},
      {"step", str("at most ", counted(o.max_num_seqs, "request"), ", ",
                   with_commas(step_tokens(o)), " tokens")},
      {"queue", str(counted(o.max_queued_requests, "request"),
                    o.max_queue_seconds > 0 ? str(", ", o.max_queue_seconds, " s") : "")},
      {"bodies", str(human_bytes(s.http.limits.max_body_bytes), " at most, ",
                     human_bytes(s.http.limits.max_total_body_bytes), " of those that wait")},
      {"prefix cache", o.prefix_caching ? "on" : "off"},
      {"speculation", facts.max_drafts == 0
                          ? str("off", facts.has_mtp ? " (--spec mtp:K turns it on)" : "")
                          : str("MTP, up to ", facts.max_drafts, " tokens")},
      {"sampling", str("temperature ", s.defaults.sampling.temperature, ", top_p ",
                       s.defaults.sampling.top_p, ", top_k ", s.defaults.sampling.top_k)},
      {"reasoning, tool calls", str(s.parsers.reasoning.empty() ? "none" : s.parsers.reasoning,
                                    ", ", s.parsers.tools.empty() ? "none" : s.parsers.tools)},
      {"access", str(s.access.api_keys.empty() ? "no key needed"
                                               : counted(std::ssize(s.access.api_keys), "API key"),
                     s.access.admin_api_keys.empty() ? "" : ", an admin key",
                     s.http.tls_certificate.empty() ? "" : ", TLS")},
  };
}

}  // namespace

Result<std::int64_t> parse_length(const std::string& text) {
  if (text == "auto" || text == "-1" || text == "null" || text == "None") return std::int64_t{0};
  double number = 0;
  std::string unit;
  const bool is_number = split_number(text, number, unit);
  double factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "k") factor = 1e3;
  if (unit == "K") factor = 1024;
  if (unit == "m") factor = 1e6;
  if (unit == "M") factor = 1024.0 * 1024;
  const double value = number * factor;
  if (is_number && number == 0)
    return invalid("--max-model-len is 0; it must be 2 or more, or auto");
  if (!is_number || factor == 0 || value > 1e9 || value != std::floor(value))
    return invalid(
        str("--max-model-len expects tokens (32768, 32k, 1M) or auto, got ", quoted(text)));
  return static_cast<std::int64_t>(value);
}

Result<std::int64_t> parse_bytes(const std::string& text) {
  double number = 0;
  std::string unit;
  const bool is_number = split_number(text, number, unit);
  unit = lower(unit);
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  if (unit.ends_with('b')) unit.pop_back();
  const std::size_t power = std::string_view(" kmgt").find(unit.empty() ? " " : unit);
  const double value = std::ldexp(number, static_cast<int>(10 * power));
  if (!is_number || unit.size() > 1 || power > 4 || value > 1e15 || value < 1)
    return invalid(str("a size in bytes such as 4G or 512M is expected, got ", quoted(text)));
  return static_cast<std::int64_t>(value);
}

int step_tokens(const ServeOptions& o) {
  return o.max_num_batched_tokens.value_or(resolve_backend(o.backend) == "cuda" ? 8192 : 2048);
}

int max_logprobs(const ServeOptions& o, const ModelConfig& config) {
  const auto all = static_cast<int>(config.vocab_size);
  return o.max_logprobs < 0 ? all : std::min(all, o.max_logprobs);
}

std::string url_of(const HttpServerOptions& http, int port) {
  const bool is_bare_ipv6 = http.host.find(':') != std::string::npos && !http.host.starts_with('[');
  const std::string host = is_bare_ipv6 ? str('[', http.host, ']') : http.host;
  return str(http.tls_certificate.empty() ? "http" : "https", "://", host, ":", port);
}

std::vector<std::string> ignored_cache_wishes(const ServeOptions& o) {
  std::string_view holds;
  std::vector<std::string> out;
  const auto look = [&](std::string_view name, bool given, const auto& value) {
    if (!given) return;
    if (holds.empty()) {
      holds = name;
    } else {
      out.push_back(str(name, " ", value, " (", holds, " says how large the cache is)"));
    }
  };
  look("--kv-cache-tokens", o.kv_cache_tokens.has_value(), o.kv_cache_tokens.value_or(0));
  look("--kv-cache-memory", !o.kv_cache_memory.empty(), o.kv_cache_memory);
  for (const auto& [name, share] :
       {std::pair("--gpu-memory-utilization", o.gpu_memory_utilization),
        std::pair("--mem-fraction-static", o.mem_fraction_static),
        std::pair("--free-gpu-memory-fraction", o.free_memory_fraction)})
    look(name, share.has_value(), share.value_or(0));
  return out;
}

std::vector<std::string> ignored_balance(const ServeOptions& o, const TranslatedArgs& given) {
  std::vector<std::string> out;
  if (o.enable_eplb) return out;
  for (const auto& [name, value] :
       {std::pair("--ep-num-redundant-experts", o.ep_num_redundant_experts),
        std::pair("--eplb-rebalance-num-iterations", o.eplb_rebalance_num_iterations)}) {
    const bool is_given = std::ranges::any_of(
        given.args, [name = name](const std::string& arg) { return arg.starts_with(name); });
    if (is_given) out.push_back(str(name, " ", value, " (experts stay; --enable-eplb moves them)"));
  }
  return out;
}

Status check_serve_options(const ServeOptions& o) {
  if (o.host.empty())
    return invalid("--host is empty; give an address of this machine, or 0.0.0.0 for all of them");
  GLINT_TRY_STATUS(check_range("port", o.port, 0, 65535));
  GLINT_TRY_STATUS(check_least("kv-cache-tokens", o.kv_cache_tokens.value_or(1), 1));
  GLINT_TRY_STATUS(check_range("max-num-seqs", o.max_num_seqs, 1, 65536));
  GLINT_TRY_STATUS(check_least("max-num-batched-tokens", step_tokens(o), 64));
  GLINT_TRY_STATUS(check_least("max-queued-requests", o.max_queued_requests, 0));
  GLINT_TRY_STATUS(check_least("max-queue-seconds", o.max_queue_seconds, 0));
  GLINT_TRY_STATUS(check_least("stream-interval", o.stream_interval, 1));
  GLINT_TRY_STATUS(check_least("max-logprobs", o.max_logprobs, -1));
  GLINT_TRY_STATUS(check_number(o.max_body_mb > 0 && o.max_body_mb <= 4096, "max-body-mb",
                                o.max_body_mb, "above 0 and at most 4096"));
  GLINT_TRY_STATUS(check_least("max-connections", o.max_connections, 1));
  for (const auto& [name, seconds] : {std::pair("shutdown-timeout", o.shutdown_timeout),
                                      std::pair("watchdog-timeout", o.watchdog_timeout)})
    GLINT_TRY_STATUS(check_number(seconds >= 0 && seconds <= 1e9, name, seconds, "from 0 to 1e9"));
  if (o.step_slowdown)
    GLINT_TRY_STATUS(check_number(*o.step_slowdown == 0 || *o.step_slowdown >= 1, "step-slowdown",
                                  *o.step_slowdown, "1 or more, or 0 for no limit"));
  GLINT_TRY_STATUS(check_range("text-threads", o.text_threads, 1, 256));
  for (const auto& [name, fraction] :
       {std::pair("gpu-memory-utilization", o.gpu_memory_utilization),
        std::pair("mem-fraction-static", o.mem_fraction_static),
        std::pair("free-gpu-memory-fraction", o.free_memory_fraction)}) {
    if (fraction)
      GLINT_TRY_STATUS(
          check_number(*fraction > 0 && *fraction <= 1, name, *fraction, "above 0 and at most 1"));
  }
  GLINT_TRY_STATUS(check_number(o.grammar_timeout > 0 && o.grammar_timeout <= 86400,
                                "grammar-timeout", o.grammar_timeout, "above 0 and at most 86400"));
  if (!o.otlp_traces_endpoint.empty()) {
    GLINT_TRY_STATUS(parse_server_url(o.otlp_traces_endpoint).in("--otlp-traces-endpoint"));
  }
  for (const std::string& name : o.served_model_name) {
    if (name.empty()) return invalid("--served-model-name is empty; give a name, or leave it out");
  }
  if (o.log_prompts && !o.log_requests)
    return invalid("--log-prompts adds to the lines of --log-requests; give both");
  return Ok{};
}

Result<ServePlan> plan_serve(const ServeOptions& options, const TranslatedArgs& given,
                             const ServeFacts& facts) {
  GLINT_TRY_STATUS(check_expected(given, facts.config));
  GLINT_TRY_STATUS(check_quantization(options.quantization, facts.formats));
  ServePlan plan;
  GLINT_TRY(plan.max_model_len, resolve_length(facts.asked_length, facts.config));
  CacheWishes wishes = {.tokens = options.kv_cache_tokens,
                        .share = options.gpu_memory_utilization,
                        .share_with_weights = options.mem_fraction_static,
                        .share_of_free = options.free_memory_fraction,
                        .max_running = options.max_num_seqs,
                        .max_model_len = plan.max_model_len,
                        .may_shorten = facts.asked_length == 0};
  if (!options.kv_cache_memory.empty()) {
    GLINT_TRY(wishes.bytes, parse_bytes(options.kv_cache_memory).in("--kv-cache-memory"));
  }
  GLINT_TRY(const CachePlan cache, plan_cache(wishes, facts.memory));
  plan.max_model_len = cache.max_model_len;
  GLINT_TRY_STATUS(check_drafts(options.spec, facts));
  GLINT_TRY(plan.server, server_config(options, facts, plan.max_model_len));
  limit_bodies(facts.memory, std::int64_t{cache.pages} * facts.memory.page,
               plan.server.http.limits);
  plan.engine.scheduler = {.max_step_tokens = step_tokens(options),
                           .max_running = options.max_num_seqs,
                           .max_seq_len = plan.max_model_len,
                           .depth = 2,
                           .max_drafts = facts.max_drafts};
  plan.engine.max_waiting = options.max_queued_requests;
  plan.engine.cache.num_pages = cache.pages;
  plan.engine.cache.page_size = kPageSize;
  plan.engine.cache.share_prefixes = options.prefix_caching;
  if (options.step_slowdown) {
    plan.engine.max_step_slowdown = *options.step_slowdown;
    plan.engine.unseen_step_seconds = 0;
  }
  plan.engine.watchdog_seconds = options.watchdog_timeout;
  // A step that waits for a lost rank is no hang: the silence tells first, and requests go on.
  constexpr double kLeastWithRanks = 2 * kRankSilenceSeconds;
  if (options.watchdog_timeout > 0 && facts.ranks.shape.num_ranks() > 1)
    plan.engine.watchdog_seconds = std::max(options.watchdog_timeout, kLeastWithRanks);
  plan.rows = table(options, facts, plan);
  Json::Object info;
  for (const auto& [name, value] : plan.rows) info.emplace_back(name, value);
  plan.server.info = info;
  return plan;
}

std::vector<std::string> ServePlan::lines() const {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::vector<std::string> out;
  for (const auto& [name, value] : rows)
    out.push_back(str("  ", name, std::string(width + 2 - name.size(), ' '), value));
  return out;
}

}  // namespace glint
