// The recipe and dataset sections of a plan file. Structs are taken apart by name: a new field does not compile until
// it has a key here (and then a line in docs/plan.schema.json, which a test asks for).
#include "models/adapter_kind.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/token_dispatcher.h"
#include "models/training_method.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

template <class Archive, class Lora>
void list_lora(Archive& f, Lora& lora) {
  auto& [kind, rank, alpha, dropout, targets, adapter_dtype, base_dtype, modules_to_save, is_dora, linear_experts,
         rotation_block, factor] = lora;
  if (f.has("kind") && (Archive::kReads || !kind->is_lora())) f.row("kind", kind);
  f("rank", rank, kAtLeastOne);
  f("alpha", alpha, NumberRange{0, 1e9});
  f("dropout", dropout, NumberRange{0, 1});
  f("targets", targets);
  f("adapter_dtype", adapter_dtype);
  f("base_dtype", base_dtype);
  f("modules_to_save", modules_to_save);
  f("is_dora", is_dora);
  if (f.has("rotation_block") && (Archive::kReads || rotation_block > 0))
    f("rotation_block", rotation_block, IntRange{2, kMostRank});
  if (f.has("factor") && (Archive::kReads || factor > 0)) f("factor", factor, IntRange{1, kMostRank});
  if (f.has("linear_experts") && (Archive::kReads || linear_experts)) f("linear_experts", linear_experts);
}

template <class Archive, class Quant>
void list_quant(Archive& f, Quant& quant) {
  auto& [kind, block_size, double_quant, storage_dtype, quantises_experts, packed] = quant;
  static_cast<void>(packed);  // the checkpoint has it, in the model's config
  f("kind", kind);
  f("block_size", block_size, kAtLeastOne);
  f("double_quant", double_quant);
  f("storage_dtype", storage_dtype);
  if (f.has("experts") && (Archive::kReads || quantises_experts)) f("experts", quantises_experts);
}

template <class Archive, class Target>
void list_offload(Archive& f, Target& offload) {
  auto& [optimizer, params, activations] = offload;
  f("optimizer", optimizer);
  f("params", params);
  f("activations", activations);
}

constexpr IntRange kPixelRange{1, kMostPixels};

template <class Archive, class Images>
void list_images(Archive& f, Images& images) {
  auto& [width, height, per_row, train] = images;
  f("width", width, kPixelRange);
  f("height", height, kPixelRange);
  f("per_row", per_row, IntRange{1, kMostImages});
  f("train", train);
}

template <class Archive, class Target>
void list_routing(Archive& f, Target& routing) {
  auto& [imbalance, capacity, pads_to_capacity, dispatcher] = routing;
  f("imbalance", imbalance, NumberRange{1, kMostImbalance});
  f("capacity", capacity, NumberRange{0, kMostCapacity});
  f("pads_to_capacity", pads_to_capacity);
  f.row("dispatcher", dispatcher);
}

/// The versions of a plan, so that it keeps its figures; plans of 0.1 have none and get the newest.
template <class Archive, class Framework>
void list_versions(Archive& f, Framework& framework) {
  std::string text;
  if constexpr (!Archive::kReads) text = versions_text(framework->versions);
  if (f.has("versions")) f("versions", text);
  if constexpr (Archive::kReads)
    if (!text.empty()) try {
        framework = resolve_framework(framework->name, {.given = parse_stack_versions(text), .date = {}});
      } catch (const InputError& error) { f.report("versions", error.problem() + "; " + error.hint()); }
}

template <class Archive, class Target>
void list_objective(Archive& f, Target& objective) {
  auto& [method, reference, completion_len, labels, texts_per_row, teacher_topk] = objective;
  f.row("method", method);
  if (f.has("reference") && (Archive::kReads || reference)) f("reference", reference);
  f("completion_len", completion_len, kCount);
  f("labels", labels, kCount);
  f("texts_per_row", texts_per_row, kCount);
  if (f.has("teacher_topk") && (Archive::kReads || teacher_topk > 0)) f("teacher_topk", teacher_topk, kCount);
}

template <class Archive, class R>
void list_recipe(Archive& f, R& recipe) {
  auto& [method, lora, quant, trained, trained_in_turn, precision, optimizer, optimizer_rank, optimizer_in_backward,
         micro_batch, seq_len, packing, grad_accum, checkpointing, checkpoint_every, attention, attention_groups, loss,
         loss_chunks, kernels, torch_compile, qat, fp8_matmul, offload, images, routing, framework, objective, pass] =
      recipe;
  static_cast<void>(pass);  // of phases, which are made of the plan
  const bool knows_method = f("method", method);
  const bool has_lora =
      f.nullable_object("lora", recipe.is_adapter(), [&](auto& inner) { list_lora(inner, recipe.lora); });
  f.object("quant", [&](auto& inner) { list_quant(inner, recipe.quant); });
  if (f.has("trained") && (Archive::kReads || !trained.empty())) f("trained", trained);
  if (f.has("trained_in_turn") && (Archive::kReads || trained_in_turn)) f("trained_in_turn", trained_in_turn);
  f("precision", precision);
  f.row("optimizer", optimizer);
  if (f.has("optimizer_rank") && (Archive::kReads || recipe.optimizer->projects))
    f("optimizer_rank", optimizer_rank, IntRange{1, kMostRank});
  f("optimizer_in_backward", optimizer_in_backward);
  f("micro_batch", micro_batch, kAtLeastOne);
  f("seq_len", seq_len, kAtLeastOne);
  f("packing", packing);
  f("grad_accum", grad_accum, kAtLeastOne);
  f("checkpointing", checkpointing);
  f("checkpoint_every", checkpoint_every, kAtLeastOne);
  f("attention", attention);
  if (f.has("attention_groups") && (Archive::kReads || attention_groups > 1))
    f("attention_groups", attention_groups, IntRange{1, kMostAttentionGroups});
  f("loss", loss);
  f("loss_chunks", loss_chunks, kAtLeastOne);
  f("kernels", kernels);
  f("torch_compile", torch_compile);
  if (f.has("qat") && (Archive::kReads || qat != Qat::None)) f("qat", qat);
  f("fp8_matmul", fp8_matmul);
  f.object("offload", [&](auto& inner) { list_offload(inner, recipe.offload); });
  if (f.has("images") && (Archive::kReads || images != ImageSpec{}))
    f.nullable_object("images", true, [&](auto& inner) { list_images(inner, recipe.images); });
  if (f.has("routing") && (Archive::kReads || routing != Routing{}))
    f.nullable_object("routing", true, [&](auto& inner) { list_routing(inner, recipe.routing); });
  if (f.has("objective") && (Archive::kReads || !objective.method.is_usual()))
    f.nullable_object("objective", true, [&](auto& inner) { list_objective(inner, recipe.objective); });
  f.row("framework", framework);
  list_versions(f, framework);
  if constexpr (Archive::kReads)
    if (knows_method && has_lora != recipe.is_adapter())
      f.report("lora", has_lora ? "must be null: method is 'full'"
                                : "is needed: method is '" + std::string(to_string(method)) + "'");
}

template <class Archive, class Data>
void list_dataset(Archive& f, Data& dataset) {
  auto& [rows, tokens_per_row, epochs] = dataset;
  f("rows", rows, IntRange{0, kMostDataRows});
  f("tokens_per_row", tokens_per_row, kCount);
  f("epochs", epochs, NumberRange{0, 1e9});
}

}  // namespace

void write_recipe(FieldWriter& out, const Recipe& recipe) { list_recipe(out, recipe); }
void read_recipe(Fields& in, Recipe& recipe) { list_recipe(in, recipe); }
void write_dataset(FieldWriter& out, const Dataset& dataset) { list_dataset(out, dataset); }
void read_dataset(Fields& in, Dataset& dataset) { list_dataset(in, dataset); }

}  // namespace gpuplan
