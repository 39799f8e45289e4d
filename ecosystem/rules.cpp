#include "ecosystem/rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

bool is(const Setup::Flag& flag) { return flag.value_or(false); }
bool is(const Setup::Word& word, std::string_view value) { return word && *word == value; }
bool is_any(const Setup::Word& word, std::initializer_list<std::string_view> values) {
  return word && std::find(values.begin(), values.end(), *word) != values.end();
}

bool is_fsdp_any(const Setup& s) { return is(s.distributed, "fsdp") && !is(s.fsdp_sharding, "none"); }
bool is_adapter(const Setup& s) { return s.adapter && *s.adapter != "none"; }
/// A base of bitsandbytes; one that the program itself shards follows no such rule.
bool is_4bit(const Setup& s) {
  return s.quant_bits == 4 && s.quant_method.value_or("bnb") == "bnb" && !is(s.shards_4bit);
}
bool is_prequantised(const Setup& s) { return is_any(s.quant_method, {"gptq", "awq", "hqq"}); }
bool is_checkpointed(const Setup& s) { return is(s.checkpointing) || is(s.fsdp_checkpointing); }
bool offloads(const Setup::Word& target) { return target && *target != "none"; }
bool offloads_any(const Setup& s) {
  return is(s.fsdp_offload) || offloads(s.offload_optimizer) || offloads(s.offload_params);
}
bool has_8bit_optimizer(const Setup& s) { return is_any(s.optimizer, {"adamw-8bit", "paged-adamw-8bit", "lion-8bit"}); }

// Facts: issues of accelerate, bitsandbytes, PEFT, DeepSpeed and transformers as docs/ecosystem.md names them.
constexpr std::array kRules{
    Rule{"R01", "FSDP2 cannot shard 4-bit bitsandbytes weights correctly",
         "--fsdp-version 1, or --strategy ddp or zero2",
         [](const Setup& s) { return is_4bit(s) && is_fsdp_setup(s, 2) && !is(s.fsdp2_shards_4bit); }},
    Rule{"R02", "4-bit weights that are stored as uint8 cannot be sharded: \"Cannot flatten integer dtype tensors\"",
         "set bnb_4bit_quant_storage to bfloat16",
         [](const Setup& s) { return is_4bit(s) && shards_weights(s) && s.quant_storage.value_or("u8") == "u8"; }},
    Rule{"R03", "only 4-bit bases can be sharded; an 8-bit one cannot", "--qlora, or --strategy ddp or zero2",
         [](const Setup& s) {
           return s.quant_bits == 8 && shards_weights(s) && !(is_fsdp_setup(s, 2) && is(s.fsdp2_shards_8bit));
         }},
    Rule{"R04", "a GPTQ, AWQ or HQQ base has no float storage and cannot be sharded",
         "--strategy ddp or zero2, or a base that is not quantised",
         [](const Setup& s) { return is_prequantised(s) && shards_weights(s); }},
    Rule{"R05", "layers that are split with device_map belong to one process on one machine",
         "--strategy fsdp across machines",
         [](const Setup& s) { return is(s.distributed, "no") && s.num_machines.value_or(1) > 1; }},
    Rule{"R06", "neither DDP nor a device_map offloads to the host in training",
         "--strategy zero2 --offload optimizer, --strategy fsdp --offload optimizer,params, or --optimizer paged-adamw",
         [](const Setup& s) {
           return offloads_any(s) && is_any(s.distributed, {"no", "multi"}) && !is(s.shards_optimizer);
         }},
    Rule{"R07", "FSDP and DeepSpeed exclude each other", "keep one of them",
         [](const Setup& s) { return is(s.distributed, "fsdp") && (s.deepspeed_file || s.zero_stage); }},
    Rule{"R08", "FSDP does not work with this 8-bit optimizer: FSDP1 with offload and FSDP2 fail",
         "--optimizer adamw-fused",
         [](const Setup& s) {
           return has_8bit_optimizer(s) && (is_fsdp_setup(s, 2) || (is_fsdp_setup(s, 1) && is(s.fsdp_offload)));
         },
         nullptr,
         [](Setup& s) -> std::string_view {
           s.optimizer = "adamw-fused";
           return "optimizer";
         }},
    Rule{"R09", "FSDP with a 4-bit base cannot save paged_adamw_8bit's state", "--optimizer adamw-foreach",
         [](const Setup& s) { return is_4bit(s) && is_fsdp_setup(s, 1) && is(s.optimizer, "paged-adamw-8bit"); },
         [](Setup&) {}},
    Rule{"R10", "DeepSpeed replaces any optimizer but adamw_torch when it steps on the host",
         "--optimizer adamw-fused or adamw-foreach",
         [](const Setup& s) {
           return is_zero_setup(s, 1) && offloads(s.offload_optimizer) && s.optimizer &&
                  !is_any(s.optimizer, {"adamw-fused", "adamw-foreach"});
         },
         [](Setup& s) { s.optimizer = "adamw-fused"; }},
    Rule{"R11", "generation in evaluation does not work with sharded weights", "set predict_with_generate to false",
         [](const Setup& s) { return is(s.generates) && shards_weights(s); }},
    Rule{"R12", "FSDP2 has no LOCAL_STATE_DICT", "fsdp_state_dict_type: SHARDED_STATE_DICT",
         [](const Setup& s) { return is_fsdp_setup(s, 2) && is(s.fsdp_state_dict, "local"); }},
    Rule{"R13", "two switches for activation checkpointing: the Trainer stops with a ValueError",
         "gradient_checkpointing or fsdp_activation_checkpointing, not both",
         [](const Setup& s) { return is_fsdp_any(s) && is(s.checkpointing) && is(s.fsdp_checkpointing); }, nullptr,
         [](Setup& s) -> std::string_view {
           // FSDP's own is what accelerate advises, but for R19
           const bool draws_other_masks = is_fsdp_setup(s, 2) && is_adapter(s) && s.dropout.value_or(0) > 0;
           (draws_other_masks ? s.fsdp_checkpointing : s.checkpointing) = false;
           return draws_other_masks ? "fsdp_checkpointing" : "checkpointing";
         }},
    Rule{"R14", "fp16 with a 4-bit base that is stored as bfloat16 is unstable",
         "bf16: true, or bnb_4bit_quant_storage: float32",
         [](const Setup& s) { return is_4bit(s) && is(s.fp16) && is(s.quant_storage, "bf16"); }, [](Setup&) {}},
    Rule{"R15", "PEFT names DoRA on an 8-bit base under FSDP as a known problem", "--lora without dora",
         [](const Setup& s) { return is(s.dora) && s.quant_bits == 8 && is_fsdp_any(s); }},
    Rule{"R16", "adapters cannot be merged inside a sharded run", "merge after training, in one process",
         [](const Setup& s) { return is(s.merges_adapter) && shards_weights(s); }},
    Rule{"R18", "load_best_model_at_end with save_only_model stops the Trainer under FSDP and DeepSpeed",
         "switch one of them off",
         [](const Setup& s) {
           return is(s.best_at_end) && is(s.saves_model_only) && is_any(s.distributed, {"fsdp", "deepspeed"});
         }},
    Rule{"R19", "FSDP2's checkpointing draws other dropout masks in the recompute: gradients are wrong",
         "lora_dropout: 0, or gradient_checkpointing instead of fsdp_activation_checkpointing",
         [](const Setup& s) {
           return is_fsdp_setup(s, 2) && is(s.fsdp_checkpointing) && is_adapter(s) && s.dropout.value_or(0) > 0;
         },
         [](Setup&) {}},  // it trains, and takes as much memory and time
    Rule{"R21", "axolotl stops at lora_target_linear beside quantize_moe_experts",
         "lora_target_modules, as in --qlora targets=q_proj+k_proj+v_proj+o_proj,experts",
         [](const Setup& s) { return is(s.quant_experts) && is(s.all_linear); }},
    Rule{"E01", "DeepSpeed takes offload_param below stage 3 and ignores it", "zero_stage: 3, or offload_param none",
         [](const Setup& s) {
           return is(s.distributed, "deepspeed") && s.zero_stage.value_or(0) < 3 && offloads(s.offload_params);
         },
         [](Setup& s) { s.offload_params = "none"; }},
    Rule{"E02", "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states, else accelerate stops",
         "fsdp_sync_module_states: true",
         [](const Setup& s) { return is_fsdp_any(s) && is(s.fsdp_ram_efficient) && s.fsdp_sync == false; }},
    Rule{"E03", "fsdp_reshard_after_forward must be true or false for FSDP2", "fsdp_reshard_after_forward: true",
         [](const Setup& s) {
           return is_fsdp_setup(s, 2) && s.fsdp_reshard && !is_any(s.fsdp_reshard, {"yes", "no"});
         }},
    Rule{"E04", "ZeRO-3 does not train a 4-bit base whose parameters are offloaded: the GPU would hold more, not less",
         "--offload optimizer",
         [](const Setup& s) { return is_4bit(s) && is_zero_setup(s, 3) && offloads(s.offload_params); }},
    Rule{"E05", "bf16 and fp16 exclude each other", "keep one of them",
         [](const Setup& s) { return is(s.bf16) && is(s.fp16); }},
    Rule{"E06", "FSDP1 divides no sequences among GPUs", "fsdp_version: 2",
         [](const Setup& s) { return s.context_parallel.value_or(1) > 1 && is_fsdp_setup(s, 1); }},
    Rule{"E10", "under FSDP the ranks that share experts are whole groups of those that share a sequence",
         "an --ep that is a multiple of --cp",
         [](const Setup& s) {
           const std::int64_t ep = s.expert_parallel.value_or(1), cp = s.context_parallel.value_or(1);
           return ep > 1 && cp > 1 && ep % cp != 0 && s.fsdp_version == 2;
         }},
    Rule{"E08", "DeepSpeed computes in the type that is switched on, and neither bf16 nor fp16 is",
         "bf16: true; in a plan --precision bf16-mixed",
         [](const Setup& s) {
           return is_zero_setup(s, 1) && s.bf16 == false && !is(s.fp16) && !is(s.mixed_precision, "bf16") &&
                  is_any(s.dtype, {"bf16", "fp16"});
         }},
    Rule{"E09", "LLaMA-Factory and axolotl refuse pure bfloat16 with ZeRO-3", "bf16: true without pure_bf16",
         [](const Setup& s) { return is(s.own_dtype, "bf16") && is_zero_setup(s, 3); }},
    Rule{"E07", "activations are offloaded at checkpoints, and nothing is checkpointed", "gradient_checkpointing: true",
         [](const Setup& s) { return is(s.activation_offload) && !is_checkpointed(s); }}};

}  // namespace

std::span<const Rule> ecosystem_rules() { return kRules; }

KeptRules keep_rules(Setup& setup, bool mends, const std::string& where) {
  KeptRules out;
  for (const Rule& rule : kRules) {
    if (!rule.is_broken(setup)) continue;
    const std::string why = fmt::format("{} [{}]", rule.why, rule.id);
    if (rule.mend && mends) {
      out.mended.emplace_back(rule.mend(setup));
      if (out.why_mended.empty()) out.why_mended = why;
      continue;
    }
    if (!rule.read_as) throw InputError(where, why, std::string(rule.nearest));
    rule.read_as(setup);
    out.notes.push_back(why);
  }
  return out;
}

const Rule* broken_rule(const Setup& setup) {
  const auto row = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.is_broken(setup); });
  return row == kRules.end() ? nullptr : &*row;
}

bool is_fsdp_setup(const Setup& setup, int version) {
  return is_fsdp_any(setup) && setup.fsdp_version.value_or(1) == version;
}

bool is_zero_setup(const Setup& setup, int least_stage) {
  return is(setup.distributed, "deepspeed") && setup.zero_stage.value_or(0) >= least_stage;
}

bool shards_weights(const Setup& setup) { return is_fsdp_any(setup) || is_zero_setup(setup, 3); }

}  // namespace gpuplan
