// What a training set-up says, in one vocabulary for every trainer and launcher. The key tables of data/ecosystem bind
// the keys of each file format to these facts, in both directions; ecosystem/meaning turns them into a question of the
// planner and back.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

/// Empty: the files do not say. The words of a choice are those of kSetupFields' comments in setup.cpp.
struct Setup {
  using Flag = std::optional<bool>;
  using Count = std::optional<std::int64_t>;
  using Number = std::optional<double>;
  using Word = std::optional<std::string>;
  using Words = std::optional<std::vector<std::string>>;
  using Numbers = std::optional<std::vector<std::int64_t>>;

  // model and method
  Word model, model_type, adapter, dtype, own_dtype;
  Word model_alias;  // a name of the trainer's own for the model, which counts where nothing else names one
  Count quant_bits;
  Word quant_method, quant_type, quant_storage;
  Flag double_quant, quant_experts;
  Flag linear_experts;  // stacked experts become linears, which quantisation and adapters reach
  Count rank;
  Number alpha, dropout;
  Words targets, saved_modules, module_targets, fsdp_words;  // fsdp_words: "full_shard", "auto_wrap", "offload"
  Word fsdp_file;                                            // JSON with the settings of FSDP that go with them
  Word runs_as;                                              // a framework whose models and kernels the trainer takes
  Count own_width, own_layers, own_heads, own_kv_heads, own_head_dim, own_mlp_width, own_vocab;  // the model's, stated
  Word component;                                     // torchtune: model and method in one word
  Flag mlp_adapters, head_adapters, fused_optimizer;  // torchtune: of the targets, of AdamW
  Flag fsdp2_shards_4bit, fsdp2_shards_8bit;          // FSDP2 takes such bases of bitsandbytes
  Flag shards_4bit;                                   // the program's own 4-bit storage can be sharded
  Flag all_linear;                                    // the targets as axolotl says them, in two keys
  Flag dora, compile_layers;
  Word adapter_kind;   // a row of data/adapters.yaml
  Word adapter_start;  // what its parameters begin with: of MiSS another form of it
  Count rotation_block, adapter_factor;
  Words input_blocks, output_blocks;           // modules whose A, and whose B, is block diagonal
  Count diagonal_blocks;                       // of those: adapters of that kind
  Count kind_rank, usual_rank;                 // by a key of the kind's own; where no key says it
  Flag rank_is_of_lora;                        // `rank` says nothing of other kinds
  Flag prepares_kbit, prepares_checkpointing;  // PEFT's preparation of a quantised base, and its own checkpointing
  Flag rank_means_adapters;                    // a rank alone says that adapters are trained
  // what is trained alone: expressions, layers, shares and parts, as ecosystem/trained_parameters.cpp reads them
  Words unfrozen, freeze_modules, freeze_extra, frozen_prefixes, trained_prefixes;
  Numbers adapted_layers, learners;  // learners: processes of each machine
  Word frozen_regex, trained_regex, decoder_trained, encoder_trained, fusion_trained;
  Flag freezes_layers, spreads_layers, freezes_language;
  Number freeze_layers, frozen_ratio;
  Count attention_groups;     // of shifted sparse attention
  Words grouped_types;        // model_types whose attention the program can divide in groups
  Flag stops_without_groups;  // at another; else it trains without groups
  Flag trains_tower_whole;    // beside adapters of the language model
  Flag inserts_layers;        // copies of layers behind every so many, which alone are trained
  Count new_layers, layer_groups;
  Count drawn_layers;                     // so many that change from time to time, beside what is outside of layers
  Flag drawn_keep_states;                 // of those that were trained before
  Words parameter_targets;                // experts' parameters that carry adapters
  Word qat, qat_weights, qat_inputs;      // fake quantisers: in one word, or of weights and of inputs
  Flag freezes_tower, freezes_projector;  // of a model with a vision tower; the projector's follows the tower's
  // what it is trained for: a row of data/methods.yaml, the loss by which a trainer's word for it becomes another row,
  // where the reference comes from, and the numbers of another head
  Word objective, pair_loss, reference, teacher;
  Number student_share;       // of the steps of distillation that are on answers of the student
  Flag teacher_waits;         // on the host
  Flag teacher_served;        // another program gives its log-probs
  Count teacher_topk;         // so many logits of each token are compared
  Flag scores_by_vocabulary;  // the head of the vocabulary stays, and two of its tokens score
  Count labels, texts_per_row;
  // what generates answers, where, and how many; regularises: a reference is held where this is not 0
  Word engine, engine_place;
  Number engine_utilisation, regularises;
  Flag engine_sleeps, engine_offloads, engine_offloads_states;  // what is trained waits on the host: weights, states
  Count old_batch, reference_batch;                             // sequences at once of passes for log-probs
  Count engine_tp, engine_sequences, generations, completion_len, prompt_len, steps_per_generation, generation_batch,
      iterations;
  Count generation_prompts, update_prompts;  // of a generation and of an optimizer step, each with all its answers
  Count generation_rows, update_rows;        // the same in answers
  Count mini_batches;                        // optimizer steps on a generation
  Count mean_prompt, mean_completion, engine_gpus, engine_machines, engine_copies, engine_count, sync_batches;
  Count machine_gpus;  // of each machine, of those that train and of an engine's
  Count reference_gpus, reference_machines, critic_gpus, critic_machines, reward_gpus, reward_machines;
  Flag shares_reference;  // it is on the GPUs that train
  Flag counts_engine;     // the machines of those that train hold the GPUs of the engine too
  Flag packs_first;       // rows are packed before ranks share them: their number need not divide
  Count server_tp, server_copies, server_context;  // of a server that the script starts beside the training
  Number server_utilisation;
  Count sync_bucket;  // MiB of weights on their way to an engine
  Count engine_context,
      model_positions;  // tokens that an engine is started for; max_position_embeddings that a file sets
  Flag engine_async, engine_colocated, adapter_sync;
  Flag raises_batch;                 // to as many answers as a prompt has, where they do not divide it
  Flag answers_in_seq;               // seq_len holds prompt and answer together
  Flag judged_by_function;           // no model judges answers
  Word reward_model;                 // on the GPUs: one is, "model": as large as the policy
  Word engine_version, policy_loss;  // policy_loss: the row that the loss of GRPO makes of it
  Number reward_seconds;
  Count micro_tokens;    // of a micro batch whose rows are laid end to end
  Count own_tokens;      // the same for each of the GPUs that share its sequences
  Flag fills_by_tokens;  // its tokens count, and its rows do not
  // batch
  Count micro_batch, grad_accum, seq_len, eval_batch, pad_multiple, global_batch;
  Count answer_len;  // tokens of an answer behind a prompt of seq_len, where the two are cut each
  Flag packing, pads, evaluates;
  Flag loss_spares_evaluation;  // its kernel makes no logits in evaluation either
  Flag evaluates_held_out;      // where rows are held out; without an evaluation none are
  Number epochs;
  Number held_out;              // of the rows, for evaluation: a share below 1, or a number
  Words data_sets;              // names and files of what is trained on
  Word data_folder;             // with the list of such names
  Count max_samples;            // of each set
  Count epoch_steps;            // of each epoch at most: optimizer steps
  Count max_steps, max_rounds;  // of the training: optimizer steps; generations with all steps on their answers
  Count total_answers;          // of the training
  // numbers and kernels
  Flag bf16, fp16, precision_by_card;
  Flag fp8;             // the trainer's own word: layers multiply in fp8
  Flag sets_precision;  // the trainer's words count, and its launcher's mixed_precision does not
  Word mixed_precision, optimizer, attention, loss;
  Flag galore, galore_8bit, apollo, adam_mini, badam;  // by a switch of their own beside the optimizer's name
  Count optimizer_rank;
  Words optimizer_targets;   // modules whose gradients are projected
  Word optimizer_arguments;  // "rank=64, scale=0.1"
  Word checkpointing_kind;   // in one word
  Count selective_every;     // of its selective kind: whole layers, every so many; 0: by operator
  Count loss_chunks, checkpoint_every;
  Flag checkpointing, reentrant, fsdp_checkpointing, activation_offload, optimizer_in_backward;
  Flag liger, liger_layers, liger_loss;
  // launcher and engine
  Word distributed;
  Count num_processes, num_machines, processes_per_machine, visible_gpus;
  Count zero_stage;
  Word offload_optimizer, offload_params, deepspeed_file;
  Words leaf_classes;  // of modules that ZeRO-3 gathers at once
  Flag zero_init, zero_gathers_for_save, zero_quantized_weights;
  Count zero_bucket;  // elements; 0: hidden^2
  Word zero_overlap;  // on, off, or by-stage: on in stage 3 alone
  Count fsdp_version, fsdp_min_params;
  Word fsdp_sharding, fsdp_reshard, fsdp_wrap, fsdp_wrap_class, fsdp_state_dict, fsdp_backward_prefetch;
  Flag fsdp_offload, fsdp_ram_efficient, fsdp_sync, fsdp_orig_params, fsdp_forward_prefetch;
  Flag shards_optimizer;  // of copies of the model: Megatron's distributed optimizer
  Count shard_ranks;      // of one copy, with those that share sequences; dp_shard: without these
  Count dp_replicate, dp_shard, tensor_parallel, context_parallel, pipeline_parallel, virtual_stages, expert_parallel;
  Count expert_tensor_parallel;                 // 0: as many as share each layer
  Number expert_capacity;                       // rows that an expert takes at most, over an even share
  Flag pads_experts;                            // … and it takes as many whatever comes
  Word dispatcher;                              // a row of data/token_dispatchers.yaml
  Count first_stage_layers, last_stage_layers;  // of a pipeline; the others have the rest evenly
  Word stage_layers;                            // where those between are unlike
  Flag splits_sequence;                         // between the products of ranks that share layers
  Flag overlaps_tensor_parallel;                // what these exchange runs beside the products
  Word context_exchange;
  // what rules ask for
  Flag generates, best_at_end, saves_model_only, merges_adapter, resumes, finds_unused;
};

using SetupMember = std::variant<Setup::Flag Setup::*, Setup::Count Setup::*, Setup::Number Setup::*,
                                 Setup::Word Setup::*, Setup::Words Setup::*, Setup::Numbers Setup::*>;

struct SetupField {
  std::string_view name;
  SetupMember member;
  double most = std::numeric_limits<double>::infinity();  // of a number, that is planned
};

std::span<const SetupField> setup_fields();

/// nullptr for an unknown name.
const SetupField* find_setup_field(std::string_view name);

/// Says whether a fact is stated.
bool is_stated(const Setup& setup, const SetupField& field);

/// States a fact. Returns what the value must be instead ("a whole number of at least 0") when it is of another type,
/// else an empty text.
std::string state(Setup& setup, const SetupField& field, const nlohmann::json& value);

/// The value of a fact; null when it is not stated.
nlohmann::json value_of(const Setup& setup, const SetupField& field);

}  // namespace gpuplan
