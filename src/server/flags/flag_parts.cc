#include "server/flags/flag_parts.h"

#include <algorithm>

#include "base/option_value.h"
#include "base/str.h"

namespace glint {
namespace {

// Empty: no flag gave it.
std::string part_of(const FlagParts& parts, const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? std::string() : found->second;
}

// Ranks of each replica, where --tp counts those of all `dp` times `cp`.
Result<int> divided(int tp, int dp, int cp) {
  const std::int64_t replicas = std::int64_t{dp} * cp;
  if (dp >= 1 && cp >= 1 && tp % replicas == 0) return static_cast<int>(tp / replicas);
  std::string flags = dp == 1 ? "" : str("--dp ", dp);
  if (cp != 1) flags += str(flags.empty() ? "" : " times ", "--attn-cp-size ", cp);
  return invalid(str("--tp is ", tp, ", which ", flags, " does not divide"));
}

class Layout {
 public:
  Layout(Dialect dialect, const FlagParts& parts) : dialect_(dialect), parts_(parts) {}

  // Where only attention has replicas --tp says how many ranks there are in all, of SGLang's
  // replicas or, for TensorRT-LLM, as many replicas.
  Result<LayoutArguments> arguments() {
    std::map<std::string, int> sizes;
    for (const char* name : {"tp", "dp", "ep", "pp", "cp"}) sizes[name] = size_of(name, 1);
    GLINT_TRY(sizes["dp"], balances_outside() ? replicas_of_server(sizes["dp"])
                                              : deal_out_replicas(sizes["dp"]));
    out_.headless = is_on("headless");
    const bool has_attention_dp = is_on("attention-dp");
    if (has_attention_dp && !has("dp")) sizes["dp"] = sizes["tp"];
    if (has("tp")) {
      GLINT_TRY(sizes["tp"], divided(sizes["tp"], has_attention_dp ? sizes["dp"] : 1,
                                     dialect_ == Dialect::kSglang ? sizes["cp"] : 1));
    }
    if (has("max-num-batched-tokens")) divide_step(has_attention_dp ? sizes["dp"] : 1);
    const bool counts_all =
        dialect_ == Dialect::kGlint || (dialect_ == Dialect::kSglang && has_attention_dp);
    if (!counts_all) out_.replicas = sizes["dp"];
    // glint's --dp counts the replicas that share sequences, too.
    if (dialect_ != Dialect::kGlint) sizes["dp"] *= sizes["cp"];
    if (is_on("all-experts") && !has("ep")) sizes["ep"] = sizes["tp"] * sizes["dp"];
    for (const auto& [name, size] : sizes) {
      if (size != 1 || has(name)) out_.args.push_back(str("--", name, "=", size));
    }
    return std::move(out_);
  }

 private:
  // SGLang's steps are of all replicas, which have as many tokens each, at least what is allowed.
  void divide_step(int replicas) {
    const int all = size_of("max-num-batched-tokens", 0);
    const int each = std::max(all / std::max(replicas, 1), std::min(all, 64));
    out_.args.push_back(str("--max-num-batched-tokens=", each));
  }

  bool has(const std::string& name) const { return !part_of(parts_, name).empty(); }
  bool is_on(const char* name) const { return part_of(parts_, name) == "true"; }
  int size_of(const char* name, int otherwise) const {
    int size = otherwise;
    const std::string text = part_of(parts_, name);
    if (!text.empty()) parse_option(text, size);
    return size;
  }

  // Whether each of vLLM's replicas, or those of a machine, are a server, and a balancer stands
  // before these.
  bool balances_outside() const {
    return has("own-dp") || is_on("server-a-replica") || is_on("server-a-machine");
  }

  // The replicas of this server, which knows of no other.
  Result<int> replicas_of_server(int replicas) {
    const bool by_machine = !has("own-dp") && is_on("server-a-machine");
    const int here = by_machine ? size_of("local-dp", replicas) : 1;
    const int number = size_of(by_machine ? "first-dp" : "own-dp", 0);
    const char* const flag = by_machine ? "--data-parallel-hybrid-lb" : "--data-parallel-rank";
    if (here < 1 || number < 0 || number + here > replicas) {
      return invalid(str("--data-parallel-size is ", replicas, ", and ", flag,
                         " makes this server the ", here, " from number ", number,
                         " on; there are numbers 0 to ", replicas - 1));
    }
    const bool shares_experts = is_on("all-experts") || has("ep");
    if (shares_experts && here < replicas) {
      return invalid(
          str(flag, " makes servers of their own, and experts are shared within one: leave ",
              "--enable-expert-parallel out, then each server holds all experts; or leave ", flag,
              " out, then one server runs all ", replicas,
              " replicas, on machines by --data-parallel-start-rank"));
    }
    out_.ignored = str(flag, " (this server is whole, of ", counted(here, "replica"),
                       "; the balancer knows the others)");
    return here;
  }

  // All of vLLM's `replicas`, some of them on each machine, as --nnodes and --node-rank.
  Result<int> deal_out_replicas(int replicas) {
    const int here = size_of("local-dp", replicas), first = size_of("first-dp", 0);
    if (here == replicas) return replicas;
    if (here < 1 || replicas % here != 0 || first % here != 0) {
      return invalid(str("--data-parallel-size is ", replicas, ", of which ", here, " from number ",
                         first,
                         " on (--data-parallel-start-rank) are to run here; machines must "
                         "have as many each (--data-parallel-size-local)"));
    }
    out_.args.push_back(str("--nnodes=", replicas / here));
    out_.args.push_back(str("--node-rank=", first / here));
    return replicas;
  }

  const Dialect dialect_;
  const FlagParts& parts_;
  LayoutArguments out_;
};

}  // namespace

Result<LayoutArguments> arguments_of_layout(Dialect dialect, const FlagParts& parts) {
  return Layout(dialect, parts).arguments();
}

Result<std::vector<std::string>> arguments_of_speculation(const FlagParts& parts) {
  const std::string method = lower(part_of(parts, "method"));
  const std::string model = part_of(parts, "model");
  std::string tokens = part_of(parts, "tokens");
  const bool is_off = method == "none" || method == "null" || (method.empty() && tokens == "0");
  if (parts.empty() || is_off) return std::vector<std::string>{};
  const bool mtp =
      method.empty() || method.ends_with("mtp") || method == "eagle" || method == "nextn";
  if (!mtp)
    return invalid(str("speculation by ", quoted(part_of(parts, "method")),
                       " is not available; this model drafts with its own MTP layer (mtp)"));
  if (!model.empty())
    return invalid(str("a draft model (", quoted(model),
                       ") is not used; the checkpoint's own MTP layer drafts"));
  // SGLang's default for this architecture is three steps, vLLM's and TensorRT-LLM's one token.
  if (tokens.empty()) tokens = method == "eagle" || method == "nextn" ? "3" : "1";
  return std::vector<std::string>{"--spec=mtp:" + tokens};
}

}  // namespace glint
