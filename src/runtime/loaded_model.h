// LoadedModel: a checkpoint on a device, ready to run steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/staged_comm.h"
#include "model/expert_tables.h"
#include "model/glm.h"
#include "model/place_weights.h"
#include "model/rope_on_device.h"
#include "ops/backend.h"
#include "runtime/device_groups.h"
#include "runtime/model_options.h"
#include "runtime/rank_command.h"
#include "runtime/stage_results.h"
#include "runtime/step_graphs.h"
#include "runtime/step_output.h"
#include "tensor/arena.h"

namespace glint {

// Statistics of loading, from opening the files until the first step can run.
struct LoadStats {
  double seconds = 0;
  std::int64_t bytes = 0;          // of the checkpoint's tensors
  std::int64_t held_bytes = 0;     // of the weights that this rank has
  std::vector<std::string> files;  // that hold them; empty for synthetic weights
  double cached_share = 0;         // of the files: what was in the page cache before
  Placement placement = {};
  std::vector<std::string> unused;  // tensors that the config leaves out
};

// Graphs that were recorded, and what they took.
struct GraphStats {
  std::size_t count = 0;
  double seconds = 0;
  std::int64_t bytes = 0;  // of the device's memory
};

class LoadedModel {
 public:
  // Fails with one sentence if the files are wrong or if `backend` cannot run the model. `opened`:
  // the model in `options.dir`, from a caller who has looked at it already.
  static Result<std::unique_ptr<LoadedModel>> load(const ModelOptions& options,
                                                   DecoratedBackend backend,
                                                   const LoadProgress& progress = {},
                                                   std::optional<OpenedModel> opened = {});

  const ModelConfig& config() const { return config_; }
  const ModelPartition& partition() const { return partition_; }
  const GenerationConfig& generation() const { return generation_; }
  const ModelOptions& options() const { return options_; }
  const LoadStats& load_stats() const { return load_stats_; }
  Backend& backend() { return *backend_.backend; }
  Ops& ops() { return *backend_.ops; }  // decorated
  const ModelWeights& weights() const { return weights_; }
  ModelWeights& weights() { return weights_; }  // for who walks over them (model/weights.h)
  // Whether the model has its MTP layer; the last stage holds it.
  bool has_mtp() const { return options_.with_mtp; }

  // From now on `followers`, which have the other ranks' models, run each pass with this one, which
  // is rank 0's; null: nobody does. Passes on states of the device then take those of the last
  // step.
  void set_followers(Followers* followers);
  bool is_leader() const { return ranks_.followers != nullptr; }
  // Whether this rank gets the logits of its passes.
  bool has_logits() const { return is_leader() || partition_.is_last(); }
  // Followers' state and restart; fine without any.
  Status ranks_state() const { return ranks_.followers ? ranks_.followers->state() : Ok{}; }
  Status restart_ranks();
  // Connects this rank's groups, where it has not been done; reserve_pages() does it, too.
  Status connect_ranks() { return ranks_.groups.connect_once(); }
  // How the ranks' tensors move between them, for people; empty: they lie on the host, or stay.
  std::string way_between_ranks() const { return ranks_.groups.way(); }
  // The same text for the same configuration, and the same names, types, shapes, files and samples
  // of tensors: ranks compare what they have read.
  std::string fingerprint() const;
  // Runs what the leader of this rank's group runs.
  Status follow(const RankCommand& command);

  // Where the layout lets experts move: those of `layer` go to `slots`, between passes, on all
  // ranks.
  void move_experts(int layer, const ExpertSlots& slots);

  // Makes a cache of `num_pages` pages; whatever an earlier one held is gone. Call it before the
  // first step. `max_seq_len`: tokens of the longest sequence; 0: as many as the model has
  // positions.
  Status reserve_pages(int num_pages, std::int64_t max_seq_len = 0);
  int num_pages() const { return kv_ ? kv_->num_pages() : 0; }
  KvStore& kv() { return *kv_; }
  const KvStore& kv() const { return *kv_; }

  // Replaces the weights by those of another checkpoint of the same configuration and formats, in
  // the same memory. Fails with the old ones in place, on all ranks. What the cache holds is of the
  // old ones.
  Status update_weights(const std::string& dir);
  // update_weights() from a checkpoint anywhere, as a trainer's in memory
  // (checkpoint/memory_source.h). Weights of `next` that are not packed are read where they lie
  // from now on.
  Status update_weights(Checkpoint next);

  // Runs the rows through this rank's layers; collective over its mesh. There are logits and hidden
  // states on the last stage only, and, of a leader whose followers run it too, logits on rank 0.
  StepOutput step(const StepRows& rows, const StepOptions& options = {});
  // Runs the rows of all replicas, whose results come to rank 0: to its device, whatever the
  // options say. Of replicas that share sequences (cp), the rows of each group of them, which they
  // divide: here and below.
  StepOutput step(std::span<const StepRows> replicas, const StepOptions& options);
  // step() in two parts, where this is the leader of several stages: begin_step() returns when its
  // own stage is done, end_step() when the results of the oldest step begun are there; they are
  // valid until the next call of it. Other steps may be begun between the two.
  void begin_step(std::span<const StepRows> replicas, const StepOptions& options);
  StepOutput end_step();

  // Runs rows through the MTP layer: `rows` holds the positions, and as tokens each row's *next*
  // token; `target` the hidden state of each row. `selection` [T, index_topk]: slots that an
  // earlier draft selected, used instead of selecting.
  StepOutput draft(const StepRows& rows, const HiddenRows& target,
                   std::span<const std::int32_t> selection = {});
  // draft() of all replicas; `target` and `selection` are of the rows of all, replica after
  // replica.
  StepOutput draft(std::span<const StepRows> replicas, const HiddenRows& target,
                   std::span<const std::int32_t> selection = {});
  // draft() on one rank, where only the device knows some of `rows`; results are of all rows.
  StepOutput draft_ahead(const StepRows& rows, const HiddenRows& target, DraftOptions options);

  // The replica that ran row `row` of those of `group` in the last step, as which of its own, and
  // how many of the group's it ran from there on. A group is a replica, or those that share
  // sequences.
  struct RowPlace {
    int replica = 0;
    std::int64_t row = 0, count = 0;
  };
  RowPlace place_of(int group, std::int64_t row) const;
  // Logits [R, V] of hidden states, on the device; valid until the next call. Of a replica's, they
  // come to rank 0.
  Tensor logits_of(const HiddenRows& hidden, int replica = 0);
  // Temporaries of the caller's own, between passes.
  Arena& scratch() { return scratch_; }

  // Bytes of row `row` of a dense tensor on the device.
  void read_row(const Tensor& tensor, std::int64_t row, std::span<std::byte> to);
  std::size_t hidden_row_bytes() const {
    return static_cast<std::size_t>(config_.hidden_size) * size_of(options_.numbers.activations);
  }

  // Makes room for steps as planned, in one stretch for each kind of pass, whose last results end;
  // without it, memory grows as passes need it, and the process ends where there is none left.
  Status reserve_steps(const StepMemory& planned);
  // The most that temporaries and results of passes have taken so far.
  StepMemory used_memory() const;
  // Decode steps become graphs of these sizes, where the device has any.
  void use_graphs(GraphSizes sizes) { graphs_.use(std::move(sizes)); }
  // Records them all, on all ranks, for sequences of up to `max_seq_len` tokens: no step records
  // any later. What keeps ranks from it shows in ranks_state().
  GraphStats record_graphs(std::int64_t max_seq_len, const StepOptions& options);
  std::size_t num_graphs() const { return graphs_.size(); }
  // Bytes held by all arenas.
  std::size_t arena_bytes() const {
    return step_.arena.bytes_held() + draft_.arena.bytes_held() + head_.arena.bytes_held() +
           scratch_.bytes_held() + moves_.arena.bytes_held();
  }

  // Everything that a pass of the caller's own works with. Needs pages.
  Model model() {
    return {ops(),
            options_.mesh,
            partition_,
            config_,
            weights_,
            *kv_,
            options_.numbers.activations,
            activity_,
            moves_.tables ? &*moves_.tables : nullptr};
  }
  const Tensor& rotary_table() const { return rope_.table; }

  // The work in progress, reported by each pass. The caller may report more, and record.
  Activity& activity() { return activity_; }

 private:
  LoadedModel(ModelOptions options, DecoratedBackend backend);
  Status make_up_weights();
  bool is_made_up() const { return options_.dummy && checkpoint_->source().tensors().empty(); }
  Status replace(Checkpoint next, Sources sources);
  Status take_weights(const std::string& dir);
  Status prepare_moves();
  Status undo_moves();
  Status make_pages(int num_pages, std::int64_t max_seq_len);
  Status make_room(const StepMemory& planned);
  void record_own_graphs(std::int64_t max_seq_len, const StepOptions& options);
  // own() on this rank and `command` on its followers.
  Status on_all(RankCommand command, const std::function<Status()>& own);
  void tell(RankCommand command, const HiddenRows& hidden);
  std::vector<StepRows> divide(std::span<const StepRows> groups) const;
  // Tells the other ranks of a step; the rows of each replica.
  std::vector<StepRows> tell_step(std::span<const StepRows> groups, const StepOptions& options);
  StepOutput step_of(std::span<const StepRows> replicas, const StepOptions& options);
  StepOutput draft_of(std::span<const StepRows> replicas, const HiddenRows& target,
                      std::span<const std::int32_t> selection);
  StepOutput run_own(const StepRows& rows, const StepOptions& options);
  StepOutput draft_own(const StepRows& rows, const HiddenRows& target, const DraftOptions& options,
                       Arena& arena);
  // The rows [rows[s], width] of every replica s, replica after replica, on rank 0: `mine` of the
  // last stage's first rank of each. Elsewhere an empty tensor.
  struct RowType {
    DType dtype;
    std::int64_t width;
  };
  RowType logits_type() const { return {DType::kF32, config_.vocab_size}; }
  Tensor bring_home(const Tensor& mine, std::span<const std::int64_t> rows, RowType type,
                    Arena& arena);
  void count_files();
  template <class T>
  std::span<const T> on_host(const Tensor& tensor, std::vector<T>& copy);
  Tensor place(const HiddenRows& rows, Arena& arena);

  ModelOptions options_;
  LoadStats load_stats_;
  Activity activity_;  // before the device, which tells of it when it fails
  DecoratedBackend backend_;
  // The others, where there are any.
  struct OtherRanks {
    Followers* followers = nullptr;
    // Results of the last stage go to the first by the host.
    Comm* host_pp = nullptr;
    std::unique_ptr<StagedComm> staged_pp = {};  // of a last stage on a device
    std::unique_ptr<StageResults> results = {};  // of a leader of several stages
    DeviceGroups groups = {};                    // of options_.mesh
    std::function<void()> record_again = {};     // graphs, after a restart
  } ranks_;
  ModelConfig config_;
  ModelPartition partition_;
  GenerationConfig generation_;
  std::unique_ptr<Checkpoint> checkpoint_;
  ModelWeights weights_;
  RopeOnDevice rope_;  // of the positions that a sequence may have
  std::optional<KvStore> kv_;
  // The memory of a kind of pass.
  struct Pass {
    explicit Pass(Device& device) : arena(device) {}
    Arena& begin() { return scope.emplace(arena), arena; }

    Arena arena;
    std::optional<Arena::Scope> scope;  // the results live in it until the next pass of its kind
    // Copies of them, where the device's memory is not the host's.
    std::vector<float> logits;
    std::vector<std::int32_t> routed;
  };
  Pass step_, draft_, head_;
  Arena scratch_;
  struct Moves {
    explicit Moves(Device& device) : arena(device) {}

    Arena arena;
    std::optional<ExpertTables> tables;  // where experts move
  } moves_;
  StepGraphs graphs_;
  struct Last {
    Tensor hidden;
    std::vector<std::int64_t> rows;  // of each group of replicas, on the leader
  } last_;                           // step
};

}  // namespace glint
