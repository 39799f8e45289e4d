#include "ecosystem/setup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace gpuplan {
namespace {

using nlohmann::json;

// Words of the choices:
//
//   adapter: none, lora, qlora
//
//   dtype, own_dtype, quant_storage, mixed_precision: bf16, fp16, fp32, auto, u8, no, fp8; quant_storage also compute,
//   what the step computes in
//
//   attention: eager, sdpa, flash, flash-3; flex and xformers, which are read alone
//
//   optimizer: a row of models/optimizers; adamw-torchao-4bit, which is read alone
//
//   loss: plain, chunked, fused
//
//   distributed: no, multi, fsdp, deepspeed, torch-zero (ZeroRedundancyOptimizer)
//
//   offload_optimizer, offload_params: none, cpu, nvme
//
//   fsdp_sharding: full, grad-op, none, hybrid, hybrid-grad-op
//   context_exchange: ring, all-gather
//
//   fsdp_reshard: yes, no, or a word of FSDP1
//
//   fsdp_wrap: layer, size, none
//
//   decoder_trained, encoder_trained, fusion_trained: full, lora, frozen
//
//   objective, pair_loss: a row of data/methods.yaml; reference: copy, adapter, precomputed
//   engine: a row of data/engines.yaml; engine_place: colocate, server
//
//   checkpointing_kind: a row of models/recipe_names
//
//   qat: a row of models/recipe_names; qat_weights, qat_inputs: int4, int8, fp8, nvfp4, mxfp4
constexpr std::array kSetupFields{SetupField{"model", &Setup::model},
                                  SetupField{"model_type", &Setup::model_type},
                                  SetupField{"model_alias", &Setup::model_alias},
                                  SetupField{"adapter", &Setup::adapter},
                                  SetupField{"dtype", &Setup::dtype},
                                  SetupField{"own_dtype", &Setup::own_dtype},
                                  SetupField{"quant_bits", &Setup::quant_bits},
                                  SetupField{"quant_method", &Setup::quant_method},
                                  SetupField{"quant_type", &Setup::quant_type},
                                  SetupField{"quant_storage", &Setup::quant_storage},
                                  SetupField{"double_quant", &Setup::double_quant},
                                  SetupField{"quant_experts", &Setup::quant_experts},
                                  SetupField{"linear_experts", &Setup::linear_experts},
                                  SetupField{"rank", &Setup::rank},
                                  SetupField{"alpha", &Setup::alpha},
                                  SetupField{"dropout", &Setup::dropout},
                                  SetupField{"targets", &Setup::targets},
                                  SetupField{"saved_modules", &Setup::saved_modules},
                                  SetupField{"module_targets", &Setup::module_targets},
                                  SetupField{"runs_as", &Setup::runs_as},
                                  SetupField{"own_width", &Setup::own_width},
                                  SetupField{"own_layers", &Setup::own_layers},
                                  SetupField{"own_heads", &Setup::own_heads},
                                  SetupField{"own_kv_heads", &Setup::own_kv_heads},
                                  SetupField{"own_head_dim", &Setup::own_head_dim},
                                  SetupField{"own_mlp_width", &Setup::own_mlp_width},
                                  SetupField{"own_vocab", &Setup::own_vocab},
                                  SetupField{"component", &Setup::component},
                                  SetupField{"mlp_adapters", &Setup::mlp_adapters},
                                  SetupField{"head_adapters", &Setup::head_adapters},
                                  SetupField{"fused_optimizer", &Setup::fused_optimizer},
                                  SetupField{"shards_4bit", &Setup::shards_4bit},
                                  SetupField{"fsdp2_shards_4bit", &Setup::fsdp2_shards_4bit},
                                  SetupField{"fsdp2_shards_8bit", &Setup::fsdp2_shards_8bit},
                                  SetupField{"fsdp_words", &Setup::fsdp_words},
                                  SetupField{"fsdp_file", &Setup::fsdp_file},
                                  SetupField{"all_linear", &Setup::all_linear},
                                  SetupField{"dora", &Setup::dora},
                                  SetupField{"adapter_kind", &Setup::adapter_kind},
                                  SetupField{"rotation_block", &Setup::rotation_block},
                                  SetupField{"adapter_factor", &Setup::adapter_factor},
                                  SetupField{"input_blocks", &Setup::input_blocks},
                                  SetupField{"output_blocks", &Setup::output_blocks},
                                  SetupField{"diagonal_blocks", &Setup::diagonal_blocks},
                                  SetupField{"adapter_start", &Setup::adapter_start},
                                  SetupField{"kind_rank", &Setup::kind_rank},
                                  SetupField{"usual_rank", &Setup::usual_rank},
                                  SetupField{"rank_is_of_lora", &Setup::rank_is_of_lora},
                                  SetupField{"prepares_kbit", &Setup::prepares_kbit},
                                  SetupField{"prepares_checkpointing", &Setup::prepares_checkpointing},
                                  SetupField{"rank_means_adapters", &Setup::rank_means_adapters},
                                  SetupField{"compile_layers", &Setup::compile_layers},
                                  SetupField{"unfrozen", &Setup::unfrozen},
                                  SetupField{"drawn_layers", &Setup::drawn_layers},
                                  SetupField{"drawn_keep_states", &Setup::drawn_keep_states},
                                  SetupField{"freeze_modules", &Setup::freeze_modules},
                                  SetupField{"freeze_extra", &Setup::freeze_extra},
                                  SetupField{"adapted_layers", &Setup::adapted_layers},
                                  SetupField{"learners", &Setup::learners},
                                  SetupField{"frozen_prefixes", &Setup::frozen_prefixes},
                                  SetupField{"trained_prefixes", &Setup::trained_prefixes},
                                  SetupField{"frozen_regex", &Setup::frozen_regex},
                                  SetupField{"trained_regex", &Setup::trained_regex},
                                  SetupField{"decoder_trained", &Setup::decoder_trained},
                                  SetupField{"encoder_trained", &Setup::encoder_trained},
                                  SetupField{"fusion_trained", &Setup::fusion_trained},
                                  SetupField{"freezes_layers", &Setup::freezes_layers},
                                  SetupField{"spreads_layers", &Setup::spreads_layers},
                                  SetupField{"freezes_language", &Setup::freezes_language},
                                  SetupField{"attention_groups", &Setup::attention_groups},
                                  SetupField{"grouped_types", &Setup::grouped_types},
                                  SetupField{"stops_without_groups", &Setup::stops_without_groups},
                                  SetupField{"trains_tower_whole", &Setup::trains_tower_whole},
                                  SetupField{"inserts_layers", &Setup::inserts_layers},
                                  SetupField{"new_layers", &Setup::new_layers},
                                  SetupField{"layer_groups", &Setup::layer_groups},
                                  SetupField{"freeze_layers", &Setup::freeze_layers},
                                  SetupField{"frozen_ratio", &Setup::frozen_ratio},
                                  SetupField{"parameter_targets", &Setup::parameter_targets},
                                  SetupField{"qat", &Setup::qat},
                                  SetupField{"qat_weights", &Setup::qat_weights},
                                  SetupField{"qat_inputs", &Setup::qat_inputs},
                                  SetupField{"freezes_tower", &Setup::freezes_tower},
                                  SetupField{"freezes_projector", &Setup::freezes_projector},
                                  SetupField{"objective", &Setup::objective},
                                  SetupField{"pair_loss", &Setup::pair_loss},
                                  SetupField{"reference", &Setup::reference},
                                  SetupField{"teacher", &Setup::teacher},
                                  SetupField{"student_share", &Setup::student_share},
                                  SetupField{"teacher_waits", &Setup::teacher_waits},
                                  SetupField{"teacher_served", &Setup::teacher_served},
                                  SetupField{"teacher_topk", &Setup::teacher_topk},
                                  SetupField{"scores_by_vocabulary", &Setup::scores_by_vocabulary},
                                  SetupField{"labels", &Setup::labels},
                                  SetupField{"texts_per_row", &Setup::texts_per_row},
                                  SetupField{"engine", &Setup::engine},
                                  SetupField{"engine_place", &Setup::engine_place},
                                  SetupField{"engine_utilisation", &Setup::engine_utilisation},
                                  SetupField{"regularises", &Setup::regularises},
                                  SetupField{"engine_sleeps", &Setup::engine_sleeps},
                                  SetupField{"engine_offloads", &Setup::engine_offloads},
                                  SetupField{"engine_offloads_states", &Setup::engine_offloads_states},
                                  SetupField{"old_batch", &Setup::old_batch},
                                  SetupField{"reference_batch", &Setup::reference_batch},
                                  SetupField{"engine_tp", &Setup::engine_tp},
                                  SetupField{"generations", &Setup::generations},
                                  SetupField{"completion_len", &Setup::completion_len},
                                  SetupField{"prompt_len", &Setup::prompt_len},
                                  SetupField{"steps_per_generation", &Setup::steps_per_generation},
                                  SetupField{"generation_batch", &Setup::generation_batch},
                                  SetupField{"iterations", &Setup::iterations},
                                  SetupField{"engine_sequences", &Setup::engine_sequences},
                                  SetupField{"generation_prompts", &Setup::generation_prompts},
                                  SetupField{"generation_rows", &Setup::generation_rows},
                                  SetupField{"update_rows", &Setup::update_rows},
                                  SetupField{"mini_batches", &Setup::mini_batches},
                                  SetupField{"mean_prompt", &Setup::mean_prompt},
                                  SetupField{"mean_completion", &Setup::mean_completion},
                                  SetupField{"engine_gpus", &Setup::engine_gpus},
                                  SetupField{"server_tp", &Setup::server_tp},
                                  SetupField{"server_copies", &Setup::server_copies},
                                  SetupField{"server_context", &Setup::server_context},
                                  SetupField{"server_utilisation", &Setup::server_utilisation},
                                  SetupField{"engine_context", &Setup::engine_context},
                                  SetupField{"model_positions", &Setup::model_positions},
                                  SetupField{"sync_bucket", &Setup::sync_bucket},
                                  SetupField{"engine_machines", &Setup::engine_machines},
                                  SetupField{"engine_copies", &Setup::engine_copies},
                                  SetupField{"engine_count", &Setup::engine_count},
                                  SetupField{"sync_batches", &Setup::sync_batches},
                                  SetupField{"machine_gpus", &Setup::machine_gpus},
                                  SetupField{"reference_gpus", &Setup::reference_gpus},
                                  SetupField{"reference_machines", &Setup::reference_machines},
                                  SetupField{"critic_gpus", &Setup::critic_gpus},
                                  SetupField{"critic_machines", &Setup::critic_machines},
                                  SetupField{"reward_gpus", &Setup::reward_gpus},
                                  SetupField{"reward_machines", &Setup::reward_machines},
                                  SetupField{"shares_reference", &Setup::shares_reference},
                                  SetupField{"counts_engine", &Setup::counts_engine},
                                  SetupField{"packs_first", &Setup::packs_first},
                                  SetupField{"engine_async", &Setup::engine_async},
                                  SetupField{"engine_colocated", &Setup::engine_colocated},
                                  SetupField{"adapter_sync", &Setup::adapter_sync},
                                  SetupField{"engine_version", &Setup::engine_version},
                                  SetupField{"policy_loss", &Setup::policy_loss},
                                  SetupField{"reward_model", &Setup::reward_model},
                                  SetupField{"answers_in_seq", &Setup::answers_in_seq},
                                  SetupField{"raises_batch", &Setup::raises_batch},
                                  SetupField{"judged_by_function", &Setup::judged_by_function},
                                  SetupField{"reward_seconds", &Setup::reward_seconds},
                                  SetupField{"update_prompts", &Setup::update_prompts},
                                  SetupField{"micro_tokens", &Setup::micro_tokens},
                                  SetupField{"own_tokens", &Setup::own_tokens},
                                  SetupField{"fills_by_tokens", &Setup::fills_by_tokens},
                                  SetupField{"micro_batch", &Setup::micro_batch},
                                  SetupField{"grad_accum", &Setup::grad_accum},
                                  SetupField{"seq_len", &Setup::seq_len},
                                  SetupField{"answer_len", &Setup::answer_len},
                                  SetupField{"eval_batch", &Setup::eval_batch},
                                  SetupField{"pad_multiple", &Setup::pad_multiple},
                                  SetupField{"global_batch", &Setup::global_batch},
                                  SetupField{"packing", &Setup::packing},
                                  SetupField{"pads", &Setup::pads},
                                  SetupField{"evaluates", &Setup::evaluates},
                                  SetupField{"loss_spares_evaluation", &Setup::loss_spares_evaluation},
                                  SetupField{"evaluates_held_out", &Setup::evaluates_held_out},
                                  SetupField{"epochs", &Setup::epochs},
                                  SetupField{"held_out", &Setup::held_out},
                                  SetupField{"data_sets", &Setup::data_sets},
                                  SetupField{"data_folder", &Setup::data_folder},
                                  SetupField{"max_samples", &Setup::max_samples},
                                  SetupField{"epoch_steps", &Setup::epoch_steps},
                                  SetupField{"max_steps", &Setup::max_steps},
                                  SetupField{"max_rounds", &Setup::max_rounds},
                                  SetupField{"total_answers", &Setup::total_answers},
                                  SetupField{"bf16", &Setup::bf16},
                                  SetupField{"fp16", &Setup::fp16},
                                  SetupField{"precision_by_card", &Setup::precision_by_card},
                                  SetupField{"fp8", &Setup::fp8},
                                  SetupField{"sets_precision", &Setup::sets_precision},
                                  SetupField{"mixed_precision", &Setup::mixed_precision},
                                  SetupField{"optimizer", &Setup::optimizer},
                                  SetupField{"galore", &Setup::galore},
                                  SetupField{"galore_8bit", &Setup::galore_8bit},
                                  SetupField{"apollo", &Setup::apollo},
                                  SetupField{"adam_mini", &Setup::adam_mini},
                                  SetupField{"badam", &Setup::badam},
                                  SetupField{"optimizer_rank", &Setup::optimizer_rank},
                                  SetupField{"optimizer_targets", &Setup::optimizer_targets},
                                  SetupField{"optimizer_arguments", &Setup::optimizer_arguments},
                                  SetupField{"attention", &Setup::attention},
                                  SetupField{"loss", &Setup::loss},
                                  SetupField{"loss_chunks", &Setup::loss_chunks},
                                  SetupField{"checkpoint_every", &Setup::checkpoint_every},
                                  SetupField{"checkpointing", &Setup::checkpointing},
                                  SetupField{"checkpointing_kind", &Setup::checkpointing_kind},
                                  SetupField{"selective_every", &Setup::selective_every},
                                  SetupField{"reentrant", &Setup::reentrant},
                                  SetupField{"fsdp_checkpointing", &Setup::fsdp_checkpointing},
                                  SetupField{"activation_offload", &Setup::activation_offload},
                                  SetupField{"optimizer_in_backward", &Setup::optimizer_in_backward},
                                  SetupField{"liger", &Setup::liger},
                                  SetupField{"liger_layers", &Setup::liger_layers},
                                  SetupField{"liger_loss", &Setup::liger_loss},
                                  SetupField{"distributed", &Setup::distributed},
                                  SetupField{"num_processes", &Setup::num_processes},
                                  SetupField{"num_machines", &Setup::num_machines},
                                  SetupField{"processes_per_machine", &Setup::processes_per_machine},
                                  SetupField{"visible_gpus", &Setup::visible_gpus},
                                  SetupField{"zero_stage", &Setup::zero_stage},
                                  SetupField{"offload_optimizer", &Setup::offload_optimizer},
                                  SetupField{"offload_params", &Setup::offload_params},
                                  SetupField{"deepspeed_file", &Setup::deepspeed_file},
                                  SetupField{"leaf_classes", &Setup::leaf_classes},
                                  SetupField{"zero_init", &Setup::zero_init},
                                  SetupField{"zero_gathers_for_save", &Setup::zero_gathers_for_save},
                                  SetupField{"zero_quantized_weights", &Setup::zero_quantized_weights},
                                  SetupField{"zero_bucket", &Setup::zero_bucket},
                                  SetupField{"zero_overlap", &Setup::zero_overlap},
                                  SetupField{"fsdp_version", &Setup::fsdp_version},
                                  SetupField{"fsdp_min_params", &Setup::fsdp_min_params},
                                  SetupField{"fsdp_sharding", &Setup::fsdp_sharding},
                                  SetupField{"fsdp_reshard", &Setup::fsdp_reshard},
                                  SetupField{"fsdp_wrap", &Setup::fsdp_wrap},
                                  SetupField{"fsdp_wrap_class", &Setup::fsdp_wrap_class},
                                  SetupField{"fsdp_state_dict", &Setup::fsdp_state_dict},
                                  SetupField{"fsdp_backward_prefetch", &Setup::fsdp_backward_prefetch},
                                  SetupField{"fsdp_offload", &Setup::fsdp_offload},
                                  SetupField{"fsdp_ram_efficient", &Setup::fsdp_ram_efficient},
                                  SetupField{"fsdp_sync", &Setup::fsdp_sync},
                                  SetupField{"fsdp_orig_params", &Setup::fsdp_orig_params},
                                  SetupField{"fsdp_forward_prefetch", &Setup::fsdp_forward_prefetch},
                                  SetupField{"dp_replicate", &Setup::dp_replicate},
                                  SetupField{"dp_shard", &Setup::dp_shard},
                                  SetupField{"shard_ranks", &Setup::shard_ranks},
                                  SetupField{"tensor_parallel", &Setup::tensor_parallel},
                                  SetupField{"context_parallel", &Setup::context_parallel},
                                  SetupField{"pipeline_parallel", &Setup::pipeline_parallel},
                                  SetupField{"expert_parallel", &Setup::expert_parallel},
                                  SetupField{"expert_tensor_parallel", &Setup::expert_tensor_parallel},
                                  SetupField{"expert_capacity", &Setup::expert_capacity, kMostCapacity},
                                  SetupField{"pads_experts", &Setup::pads_experts},
                                  SetupField{"dispatcher", &Setup::dispatcher},
                                  SetupField{"virtual_stages", &Setup::virtual_stages},
                                  SetupField{"first_stage_layers", &Setup::first_stage_layers},
                                  SetupField{"last_stage_layers", &Setup::last_stage_layers},
                                  SetupField{"stage_layers", &Setup::stage_layers},
                                  SetupField{"splits_sequence", &Setup::splits_sequence},
                                  SetupField{"overlaps_tensor_parallel", &Setup::overlaps_tensor_parallel},
                                  SetupField{"shards_optimizer", &Setup::shards_optimizer},
                                  SetupField{"context_exchange", &Setup::context_exchange},
                                  SetupField{"generates", &Setup::generates},
                                  SetupField{"best_at_end", &Setup::best_at_end},
                                  SetupField{"saves_model_only", &Setup::saves_model_only},
                                  SetupField{"merges_adapter", &Setup::merges_adapter},
                                  SetupField{"resumes", &Setup::resumes},
                                  SetupField{"finds_unused", &Setup::finds_unused}};

std::string set_member(Setup::Flag& member, const json& value) {
  if (!value.is_boolean()) return "true or false";
  member = value.get<bool>();
  return {};
}

std::string set_member(Setup::Count& member, const json& value) {
  constexpr std::int64_t kMost = 1'000'000'000'000;
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= double(kMost)) || std::floor(number) != number) return "a whole number of at least 0";
  member = value.get<std::int64_t>();
  return {};
}

std::string set_member(Setup::Number& member, const json& value) {
  if (!value.is_number()) return "a number";
  member = value.get<double>();
  return {};
}

std::string set_member(Setup::Word& member, const json& value) {
  if (!value.is_string()) return "a text";
  member = value.get<std::string>();
  return {};
}

std::string set_member(Setup::Words& member, const json& value) {
  if (value.is_string()) return member = std::vector{value.get<std::string>()}, "";
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), [](const json& item) { return item.is_string(); }))
    return "a list of texts";
  member = value.get<std::vector<std::string>>();
  return {};
}

std::string set_member(Setup::Numbers& member, const json& value) {
  const auto is_number = [](const json& item) { return item.is_number_integer() && item >= 0; };
  if (is_number(value)) return member = std::vector{value.get<std::int64_t>()}, "";
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_number)) return "a list of whole numbers";
  member = value.get<std::vector<std::int64_t>>();
  return {};
}

}  // namespace

std::span<const SetupField> setup_fields() { return kSetupFields; }

const SetupField* find_setup_field(std::string_view name) {
  const auto row =
      std::find_if(kSetupFields.begin(), kSetupFields.end(), [&](const SetupField& f) { return f.name == name; });
  return row == kSetupFields.end() ? nullptr : &*row;
}

bool is_stated(const Setup& setup, const SetupField& field) {
  return std::visit([&](auto member) { return (setup.*member).has_value(); }, field.member);
}

std::string state(Setup& setup, const SetupField& field, const json& value) {
  if (value.is_number() && value > field.most) return fmt::format("a number of at most {:g}", field.most);
  return std::visit([&](auto member) { return set_member(setup.*member, value); }, field.member);
}

json value_of(const Setup& setup, const SetupField& field) {
  return std::visit([&](auto member) { return (setup.*member) ? json(*(setup.*member)) : json(); }, field.member);
}

}  // namespace gpuplan
