#include "cli/plan_flags.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "models/trained_names.h"
#include "models/training_method.h"
#include "planner/changes.h"
#include "planner/pipeline_schedule.h"

namespace gpuplan {
namespace {

using Request = EstimateRequest;
using Text = const std::string&;

constexpr const char* kModel = "Model and method";
constexpr const char* kBatch = "Batch and data";
constexpr const char* kNumbers = "Precision, optimizer, kernels";
constexpr const char* kMachine = "GPUs";
constexpr const char* kStrategy = "Strategy";

template <std::int64_t Recipe::*Field>
void set_count(Request& r, Text value) {
  r.recipe.*Field = to_integer(value);
}

/// NAME+NAME, each of parameters or of a module; ",in-turn" behind them where the others are trained in other steps.
void set_trained(Request& r, Text value) {
  constexpr std::string_view kInTurn = ",in-turn";
  std::string_view names = value;
  r.recipe.trained_in_turn = names.ends_with(kInTurn);
  if (r.recipe.trained_in_turn) names.remove_suffix(kInTurn.size());
  r.recipe.trained = parse_trained_names(names, "--train-only");
}

void set_full(Request& r, Text) {
  r.recipe.trained.clear();
  r.recipe.trained_in_turn = false;
  r.recipe.method = Method::Full;
  r.recipe.quant.kind = BaseQuant::None;
  settle_reference(r.recipe);
}

/// Without SPEC, the adapters of the plan or of the files of --from stay as they are.
void set_adapter(Request& r, Text value, Method method) {
  const AdapterFlag flag = method == Method::Lora ? parse_lora(value) : parse_qlora(value);
  const bool keeps_adapters = value.empty() && r.recipe.is_adapter();
  if (!r.recipe.is_adapter()) r.recipe.trained.clear();
  r.recipe.method = method;
  if (!keeps_adapters) r.recipe.lora = flag.lora;
  if (keeps_adapters && flag.quant.kind != BaseQuant::None) r.recipe.lora.base_dtype.reset();
  r.recipe.quant = flag.quant;
  settle_reference(r.recipe);
}

void set_objective(Request& r, Text value) {
  const auto named = words_of_method(value).trained_for;
  if (!named) return;
  const TrainingMethod& method = find_training_method(*named);
  const bool is_usual = &method == &training_methods().front();  // as if none were named
  r.recipe.objective.method = is_usual ? RowOf<TrainingMethod>() : RowOf<TrainingMethod>(method);
}

void set_reference(Request& r, Text value) { r.recipe.objective.reference = parse_name<Reference>(value, "--ref"); }

/// "400,1024": mean and longest; "1024": all alike.
void set_lengths(Text value, const char* flag, std::int64_t& mean, std::int64_t& most) {
  const std::size_t comma = value.find(',');
  most = to_integer(comma == std::string::npos ? value : value.substr(comma + 1));
  mean = comma == std::string::npos ? 0 : to_integer(value.substr(0, comma));
  if (mean > most)
    throw InputError(flag, fmt::format("a mean of {} is more than the longest, {}", mean, most),
                     fmt::format("for example {} 400,1024", flag));
}

void set_completion(Request& r, Text value) {
  set_lengths(value, "--completion-len", r.rollout.mean_completion, r.rollout.max_completion);
  r.recipe.objective.completion_len = r.rollout.max_completion;
}

void set_prompt(Request& r, Text value) {
  set_lengths(value, "--prompt-len", r.rollout.mean_prompt, r.rollout.prompt_len);
}

void set_int8(Request& r, Text) {
  if (r.recipe.method != Method::Lora)
    throw InputError("--int8", "an 8-bit base is frozen and needs adapters", "add --lora");
  r.recipe.quant.kind = BaseQuant::Int8;
}

void set_wrap(Request& r, Text value) {
  const Wrap wrap = parse_wrap(value, "--wrap");
  r.options.wrap = wrap.policy;
  r.options.wrap_min_params = wrap.min_params;
}

void set_overlap_comm(Request& r, Text value) {
  if (value != "on" && value != "off")
    throw InputError("--overlap-comm", fmt::format("'{}' is neither on nor off", value));
  r.options.overlap_comm = value == "on";
}

void set_tp_overlap(Request& r, Text value) {
  if (value != "on" && value != "off")
    throw InputError("--tp-overlap", fmt::format("'{}' is neither on nor off", value));
  r.options.overlaps_tensor_parallel = value == "on";
}

void set_fsdp_version(Request& r, Text value) {
  if (value != "1" && value != "2")
    throw InputError("--fsdp-version", "unknown version '" + value + "'",
                     "1 (FullyShardedDataParallel) or 2 (fully_shard)");
  r.options.fsdp_version = value == "1" ? 1 : 2;
}

void set_checkpointing(Request& r, Text value) {
  const CheckpointingChoice choice = parse_checkpointing_choice(value, "--checkpointing");
  r.recipe.checkpointing = choice.kind;
  r.recipe.checkpoint_every = choice.every;
}

void set_loss(Request& r, Text value) {
  const std::size_t equals = value.find('=');
  r.recipe.loss = parse_name<LossKernel>(value.substr(0, equals), "--loss");
  if (equals == std::string::npos) return;
  if (r.recipe.loss != LossKernel::Chunked)
    throw InputError("--loss", "only chunked takes a number", "for example --loss chunked=8");
  r.recipe.loss_chunks = to_integer(value.substr(equals + 1));
}

void set_image_size(Request& r, Text value) {
  const std::size_t cross = value.find_first_of("xX");
  r.recipe.images.width = to_integer(value.substr(0, cross));
  r.recipe.images.height = cross == std::string::npos ? r.recipe.images.width : to_integer(value.substr(cross + 1));
}

// Applied from the top: a quantised base after its adapters. Rows without a function are read by read_plan_question().
constexpr std::array kFlags{
    PlanFlag{"--model", "MODEL", kModel,
             "name (gpuplan models), Hugging Face config.json, model folder, or org/name of the Hub", nullptr,
             Declared::Always},
    PlanFlag{"--offline", "", kModel, "do not ask the Hugging Face Hub for a model; HF_HUB_OFFLINE does the same",
             nullptr},
    PlanFlag{"--full", "", kModel, "train every weight (default)", set_full},
    PlanFlag{"--lora", "[SPEC]", kModel,
             "train adapters. SPEC: r=8,alpha=16,dropout=0,targets=all-linear or "
             "q_proj+v_proj,dtype=fp32|bf16,base=bf16|fp32,save=lm_head+embed_tokens,dora,linear-experts,"
             "kind=lora|adalora|vera|loha|lokr|ia3|oft|boft|miss|kasa|bdlora|bottleneck|loreft|prompt|p-tuning,"
             "rotation=32,factor=1. Default r=8, "
             "alpha=2r; rotation (the "
             "blocks of oft and boft), factor (of boft, lokr and bdlora) and r of other kinds as in PEFT",
             [](Request& r, Text v) { set_adapter(r, v, Method::Lora); }},
    PlanFlag{"--qlora", "[SPEC]", kModel,
             "adapters on a 4-bit base. SPEC as for --lora, and "
             "quant=nf4|gptq4|hqq,block=64,double=yes|no,storage=u8|bf16,experts",
             [](Request& r, Text v) { set_adapter(r, v, Method::Qlora); }},
    PlanFlag{"--train-only", "NAMES", kModel,
             "of parameters or modules that alone are trained (or carry adapters), as in layers.24-31+lm_head or "
             "layers.*.mlp; * is any text; in-turn behind a comma where others are trained in other steps. Default all",
             set_trained},
    PlanFlag{"--int8", "", kModel, "hold the frozen base of --lora in 8 bit", set_int8},
    PlanFlag{"--method", "METHOD", kModel,
             "what it is trained for: {methods}. Default {usual}. For plan also, or after a comma, what to choose "
             "from: any, full, lora, qlora. Default full and lora",
             set_objective},
    PlanFlag{"--ref", "copy|adapter|precomputed|host|none", kModel,
             "the reference of a method that has one: a second model, the model without its adapters, log-probs made "
             "before, a copy on the host, or none. Default adapter with adapters, else copy; where answers are "
             "generated the "
             "trainer's",
             set_reference},
    PlanFlag{"--rollout-engine", "ENGINE", kModel,
             "what generates: hf, vllm or sglang, and behind it :colocate or :server, "
             "util=0.3,tp=1,sleep=yes|no,offload=yes|weights|states|no,seqs=256,sync=adapter,batches=16,bucket=512MiB,"
             "context=4096,"
             "gpus=8,async,version=0.9. "
             "Default: the "
             "trainer's",
             [](Request& r, Text v) { r.rollout.engine = parse_engine(v); }},
    PlanFlag{"--teacher", "MODEL", kModel, "the second model of a distillation, as --model", nullptr},
    PlanFlag{"--critic", "MODEL", kModel,
             "the critic of a method that has one, as --model. Default: the model once more", nullptr},
    PlanFlag{"--reward-model", "MODEL", kModel,
             "the model that judges answers that are generated, as --model, or none where a function does. Default: of "
             "a method with a critic the model once more, or what the trainer does; of others none",
             nullptr},
    PlanFlag{"--labels", "N", kModel, "numbers of a head of scores. Default the method's",
             [](Request& r, Text v) { r.recipe.objective.labels = to_integer(v); }},
    PlanFlag{"--framework", "FRAMEWORK", kModel,
             "trainer whose dtypes, buffers and defaults to model; plain: hf-trainer's memory model without its "
             "defaults, as "
             "without this flag",
             [](Request& r, Text v) { r.recipe.framework = framework_named(v); }},
    PlanFlag{"--versions", "LIST", kModel,
             "of the libraries under the framework: transformers=4.57,peft=0.18, or installed: those of the Python on "
             "PATH. Default the newest that gpuplan knows",
             nullptr},
    PlanFlag{"--micro-batch", "B", kBatch, "sequences per GPU and pass. Default 1", set_count<&Recipe::micro_batch>},
    PlanFlag{"--seq-len", "S", kBatch, "tokens per sequence. Default 2048", set_count<&Recipe::seq_len>},
    PlanFlag{
        "--completion-len", "C", kBatch,
        "tokens of a row that are the answer, for trainers that keep the logits of answers alone. Default: the row. Of "
        "answers that are generated MEAN,MAX or MAX. Default 512",
        set_completion},
    PlanFlag{"--prompt-len", "P", kBatch,
             "tokens of a prompt whose answers are generated, MEAN,MAX or MAX. Default 512", set_prompt},
    PlanFlag{"--generations", "G", kBatch, "answers to each prompt. Default: the trainer's",
             [](Request& r, Text v) { r.rollout.generations = to_integer(v); }},
    PlanFlag{"--updates", "N", kBatch, "optimizer steps on what is generated at once, each on its part. Default 1",
             [](Request& r, Text v) { r.rollout.updates = to_integer(v); }},
    PlanFlag{"--iterations", "N", kBatch, "passes over what is generated at once. Default 1",
             [](Request& r, Text v) { r.rollout.iterations = to_integer(v); }},
    PlanFlag{"--reward-time", "TIME", kBatch, "what judging the answers of one generation takes. Default 0s",
             [](Request& r, Text v) { r.rollout.reward = parse_time(v, "--reward-time"); }},
    PlanFlag{"--student-share", "S", kBatch,
             "share of the steps of on-policy-distill that are on answers of the student (GKD's lmbda). Default 1",
             [](Request& r, Text v) { r.rollout.share = parse_number(v, "--student-share"); }},
    PlanFlag{"--texts-per-row", "N", kBatch, "texts that embed reads per row: 2, and the hard negatives. Default 2",
             [](Request& r, Text v) { r.recipe.objective.texts_per_row = to_integer(v); }},
    PlanFlag{"--teacher-topk", "K", kBatch,
             "logits of each token that distillation compares, the teacher's highest. Default: all",
             [](Request& r, Text v) { r.recipe.objective.teacher_topk = to_integer(v); }},
    PlanFlag{"--image-size", "WxH|N", kBatch,
             "pixels of the images of a vision-language model, before its processor resizes them. Default 512x512",
             set_image_size},
    PlanFlag{"--images-per-row", "N", kBatch, "images of each sequence, whose tokens are part of it. Default 1",
             [](Request& r, Text v) { r.recipe.images.per_row = to_integer(v); }},
    PlanFlag{
        "--train-vision", "no|projector|all", kBatch,
        "what is trained beside the language model: nothing, the projector, the vision tower too. Default no, or what "
        "the trainer of --framework does",
        [](Request& r, Text v) { r.recipe.images.train = parse_name<TrainVision>(v, "--train-vision"); }},
    PlanFlag{"--packing", "packed|padded|dynamic", kBatch, "how rows fill sequences. Default packed",
             [](Request& r, Text v) { r.recipe.packing = parse_name<Packing>(v, "--packing"); }},
    PlanFlag{"--grad-accum", "A", kBatch, "passes per optimizer step. Default 1", set_count<&Recipe::grad_accum>},
    PlanFlag{"--rows", "N", kBatch, "rows of the data set. Default 10000",
             [](Request& r, Text v) { r.dataset.rows = to_integer(v); }},
    PlanFlag{"--tokens-per-row", "T", kBatch, "mean tokens of a row. Default: the sequence length",
             [](Request& r, Text v) { r.dataset.tokens_per_row = to_integer(v); }},
    PlanFlag{"--epochs", "E", kBatch, "times through the data. Default 1",
             [](Request& r, Text v) { r.dataset.epochs = parse_number(v, "--epochs"); }},
    PlanFlag{"--tokens", "N", kBatch, "tokens trained on, for example 100B: sets the rows that hold them", nullptr},
    PlanFlag{"--eval-batch", "N", kBatch, "sequences per GPU in evaluation. Default: the micro batch",
             [](Request& r, Text v) { r.eval_batch = to_integer(v); }},
    PlanFlag{"--eval-logits", "none|last|kept", kBatch,
             "logits that evaluation leaves on the device: none (loss alone), of the last batch, of all. Default none",
             [](Request& r, Text v) { r.eval_logits = parse_name<EvalLogits>(v, "--eval-logits"); }},
    PlanFlag{"--eval-generate", "N", kBatch, "tokens generated per sequence in evaluation. Default 0",
             [](Request& r, Text v) { r.eval_generate = to_integer(v); }},
    PlanFlag{"--precision", "bf16-true|bf16-mixed|bf16-loaded|fp16-mixed|fp32", kNumbers,
             "of weights and computation. Default bf16-mixed",
             [](Request& r, Text v) { r.recipe.precision = parse_name<Precision>(v, "--precision"); }},
    PlanFlag{"--optimizer", "OPTIMIZER", kNumbers,
             "adamw-fused, adamw-8bit, paged-adamw, adafactor, lion, sgd, muon, galore-adamw=RANK, ... Default: what "
             "the framework uses",
             [](Request& r, Text v) { set_optimizer_text(r.recipe, v); }},
    PlanFlag{"--optimizer-in-backward", "", kNumbers, "step each weight as soon as its gradient is there",
             [](Request& r, Text) { r.recipe.optimizer_in_backward = true; }},
    PlanFlag{"--checkpointing", "none|full|selective|elementwise|every=K", kNumbers,
             "activations recomputed in backward. Default none", set_checkpointing},
    PlanFlag{"--attention", "eager|sdpa|flash|flash-3|cudnn", kNumbers, "attention kernel. Default sdpa",
             [](Request& r, Text v) { r.recipe.attention = parse_name<AttentionKernel>(v, "--attention"); }},
    PlanFlag{"--attention-groups", "N", kNumbers,
             "stretches of a sequence that attend within themselves alone, in half of the heads shifted by half of one "
             "(LongLoRA has 4). Default 1: all of it",
             set_count<&Recipe::attention_groups>},
    PlanFlag{"--kernels", "plain|fused", kNumbers, "norm and MLP kernels. Default: what the framework uses",
             [](Request& r, Text v) { r.recipe.kernels = parse_name<LayerKernels>(v, "--kernels"); }},
    PlanFlag{"--compile", "", kNumbers, "layers and loss through torch.compile: fused ops, fewer launches",
             [](Request& r, Text) { r.recipe.torch_compile = true; }},
    PlanFlag{"--fp8", "", kNumbers, "layers multiply in fp8 (Ada, Hopper and later); states and activations as without",
             [](Request& r, Text) { r.recipe.fp8_matmul = true; }},
    PlanFlag{"--qat", "KIND", kNumbers,
             "fake quantisers around the linears, of weights, or of inputs and weights: int4, int8-int4, "
             "int4-grouped, int8-int4-grouped, fp8-int4-grouped, fp8, nvfp4, mxfp4 of torchao, bitnet of onebitllms. "
             "Default none",
             [](Request& r, Text v) { r.recipe.qat = parse_name<Qat>(v, "--qat"); }},
    PlanFlag{"--loss", "plain|inplace|chunked[=N]|fused", kNumbers, "cross-entropy. Default plain", set_loss},
    PlanFlag{"--offload", "LIST", kNumbers,
             "of optimizer, params, activations; to the host, or optimizer:nvme, params:nvme. Default none",
             [](Request& r, Text v) { r.recipe.offload = parse_offload_list(v); }},
    PlanFlag{"--gpus", "GPUS", kMachine, "4xA6000, 2x4090,2x3090, local (these GPUs, as free as they are), 2xcpu",
             nullptr, Declared::Always},
    PlanFlag{
        "--gpu-spec", "SPEC", kMachine,
        "a card of --gpus as you describe it: '3060:12GiB,360GB/s,25TFLOPS' is memory, bandwidth, dense 16-bit rate; "
        "then link=pcie4x16, cc=8.6, fp8=, fp32=, sms=, p2p=yes. Several: ';' between",
        nullptr},
    PlanFlag{"--cluster", "CLUSTER", kMachine,
             "a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL's topology dump",
             nullptr},
    PlanFlag{"--gpu", "GPU", kMachine, "GPU model, if the --cluster file does not name one", nullptr},
    PlanFlag{"--num-gpus", "N", kMachine, "GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster",
             nullptr},
    PlanFlag{"--host", "KIND|FILE", kMachine,
             "of a machine: desktop, workstation, server, or a YAML file with memory_gib, channels, channel_gb_s, "
             "cpu_cores, numa_nodes. Default: what such GPUs are usually in",
             nullptr},
    PlanFlag{"--host-memory", "GIB", kMachine,
             "of one machine. Default: of --cluster; else not known, and what is usual is said", nullptr},
    PlanFlag{"--profile", "PROFILE", kMachine,
             "id (gpuplan profiles) or file of a calibration, or 'default'. Default: the newest of such GPUs, else the "
             "shipped one",
             nullptr},
    PlanFlag{"--price-per-gpu-hour", "USD", kMachine,
             "US dollars. Default: of one vendor of the catalogue (gpuplan gpus)",
             [](Request& r, Text v) { r.price_per_gpu_hour = parse_number(v, "--price-per-gpu-hour"); }},
    PlanFlag{"--strategy", "auto|single|mp|ddp|zero1|zero2|zero3|fsdp|fsdp-grad-op|hsdp", kStrategy,
             "only this one; --zero 3 is zero3. Default auto: all, and a recommendation",
             [](Request& r, Text v) { r.strategy = v == "auto" ? v : canonical_strategy(v); }},
    PlanFlag{"--shard-size", "K", kStrategy, "GPUs over which state is sharded. Default all; hsdp: a node, or half",
             [](Request& r, Text v) { r.options.shard_size = to_integer(v); }},
    PlanFlag{
        "--tp", "T", kStrategy,
        "GPUs that share each layer (tensor parallelism), for trainers that have it; the others are data parallel. "
        "Default 1",
        [](Request& r, Text v) { r.options.tp = to_integer(v); }},
    PlanFlag{"--sp", "", kStrategy, "… and between its products each holds its part of the sequence",
             [](Request& r, Text) { r.options.splits_sequence = true; }},
    PlanFlag{"--cp", "C", kStrategy,
             "of the data parallel GPUs, those that share each sequence (context parallelism). Default 1",
             [](Request& r, Text v) { r.options.cp = to_integer(v); }},
    PlanFlag{"--cp-exchange", "ring|all-gather|ulysses", kStrategy,
             "how keys and values come to all of them, or heads to each (ulysses). Default: the trainer's usual way",
             [](Request& r, Text v) { r.options.context_exchange = parse_name<ContextExchange>(v, "--cp-exchange"); }},
    PlanFlag{"--tp-overlap", "on|off", kStrategy,
             "gathers and scatters of --sp run beside the products. Default: what the trainer of --framework does",
             set_tp_overlap},
    PlanFlag{"--ep", "E", kStrategy,
             "GPUs that share the experts of each layer (expert parallelism); tokens are sent to them. Default 1",
             [](Request& r, Text v) { r.options.ep = to_integer(v); }},
    PlanFlag{"--etp", "E", kStrategy,
             "GPUs that share each expert (expert tensor parallelism), for trainers that have it. Default 1, of "
             "Megatron and "
             "verl without --ep those of --tp",
             [](Request& r, Text v) { r.options.etp = to_integer(v); }},
    PlanFlag{
        "--expert-imbalance", "X", kStrategy,
        "tokens of the fullest of the GPUs that share experts, over the mean: it needs more memory, and the others "
        "wait. Default 1",
        [](Request& r, Text v) { r.recipe.routing.imbalance = parse_number(v, "--expert-imbalance"); }},
    PlanFlag{"--expert-capacity", "F", kStrategy,
             "tokens that an expert takes at most, over an even share; the others are dropped. Default: none are",
             [](Request& r, Text v) { r.recipe.routing.capacity = parse_number(v, "--expert-capacity"); }},
    PlanFlag{"--pad-experts", "", kStrategy, "… and it computes as many whatever comes",
             [](Request& r, Text) { r.recipe.routing.pads_to_capacity = true; }},
    PlanFlag{"--dispatcher", "all-to-all|deepep", kStrategy,
             "what brings tokens to experts: a copy for each expert, or one for each GPU (deepep). Default all-to-all",
             [](Request& r, Text v) { r.recipe.routing.dispatcher = find_token_dispatcher(v); }},
    PlanFlag{
        "--pp", "P", kStrategy,
        "stages of a pipeline, each with its layers; --grad-accum says how many micro-batches go through. Default 1",
        [](Request& r, Text v) { r.options.pp = to_integer(v); }},
    PlanFlag{"--pp-schedule", "1f1b|interleaved|gpipe", kStrategy,
             "in which order stages take micro-batches. Default 1f1b, interleaved with --virtual-stages",
             [](Request& r, Text v) { r.options.schedule = parse_schedule(v, "--pp-schedule"); }},
    PlanFlag{"--virtual-stages", "V", kStrategy, "chunks of layers that each stage has. Default 1",
             [](Request& r, Text v) { r.options.virtual_stages = to_integer(v); }},
    PlanFlag{"--stage-layers", "N,...", kStrategy,
             "layers of each stage, as 6,8,8,5; 0: an even share of the rest. Default: as many in each",
             [](Request& r, Text v) { r.options.stage_layers = parse_stage_layers(v, "--stage-layers"); }},
    PlanFlag{"--fsdp-version", "1|2", kStrategy, "FullyShardedDataParallel or fully_shard. Default 2",
             set_fsdp_version},
    PlanFlag{"--wrap", "layer|size:N", kStrategy, "FSDP units: layers, or at least N parameters. Default layer",
             set_wrap},
    PlanFlag{"--overlap-comm", "on|off", kStrategy,
             "DeepSpeed reduces gradients beside compute. Default: what the configuration of --framework says",
             set_overlap_comm},
    PlanFlag{"--reduce-bucket-size", "N", kStrategy, "elements that DeepSpeed reduces at once. Default: as above",
             [](Request& r, Text v) { r.options.reduce_bucket_size = to_integer(v); }},
    PlanFlag{"--zero-quantized-weights", "", kStrategy, "ZeRO-3 gathers weights in 8 bit (ZeRO++)",
             [](Request& r, Text) { r.options.zero_quantized_weights = true; }},
    PlanFlag{"--no-reshard", "", kStrategy, "FSDP keeps gathered weights from forward to backward",
             [](Request& r, Text) { r.options.reshards = false; }},
    PlanFlag{"--prefer", "speed|cost|memory", kStrategy, "what the recommendation minimises. Default speed",
             [](Request& r, Text v) { r.preference = parse_name<Preference>(v, "--prefer"); }}};

}  // namespace

const FrameworkConvention& framework_named(std::string_view text) {
  return find_framework(squash(text) == kPlainFramework ? kUsualFramework : text);
}

std::span<const PlanFlag> plan_flags() { return kFlags; }

MethodWords words_of_method(std::string_view text) {
  const auto is_searched = [](const std::string& word) {
    return word == "any" ||
           std::ranges::any_of(names_of(Method{}).rows, [&](const NameRow<Method>& row) { return row.name == word; });
  };
  MethodWords words;
  for (const std::string& part : split(std::string(text), ',')) {
    const std::string word(trim(part));
    auto& place = is_searched(word) ? words.searched : words.trained_for;
    if (place)
      throw InputError("--method", fmt::format("'{}' and '{}' contradict each other", *place, word), "give one");
    place = word;
  }
  return words;
}

/// Help with the names of methods in their places.
static std::string help_of(const PlanFlag& flag) {
  std::string text = flag.help;
  if (text.find('{') == std::string::npos) return text;
  const auto put = [&](std::string_view place, const std::string& words) {
    if (const std::size_t at = text.find(place); at != std::string::npos) text.replace(at, place.size(), words);
  };
  std::vector<std::string> names;
  for (const TrainingMethod& method : training_methods()) names.push_back(method.name);
  put("{methods}", fmt::format("{}", fmt::join(names, ", ")));
  put("{usual}", names.front());
  return text;
}

void add_plan_flags(CLI::App& app) {
  app.add_option("plan")
      ->type_name("PLAN.json | FILE GPUS | MODEL GPUS")
      ->description(
          "a plan saved by --save ('-' is standard input), which flags override; or, in plain words, a trainer's "
          "files or a model, and GPUs, in the place of --from, --model and --gpus")
      ->group(kModel)
      ->allow_extra_args()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_question_flags(app);
}

void add_question_flags(CLI::App& app) {
  for (const PlanFlag& flag : kFlags) add_flag(app, flag.name, flag.value, help_of(flag), flag.group, flag.declared);
}

void add_surrounding_flags(CLI::App& app) {
  // clang-format off
  constexpr std::array kSurrounding{
      "--model", "--offline", "--versions", "--image-size", "--images-per-row", "--rows", "--tokens-per-row", "--tokens",
      "--gpus", "--gpu-spec", "--cluster", "--gpu", "--num-gpus", "--host", "--host-memory", "--profile",
      "--price-per-gpu-hour", "--method", "--full", "--lora", "--qlora"};
  // clang-format on
  for (const PlanFlag& flag : kFlags)
    if (std::ranges::find(kSurrounding, std::string_view(flag.name)) != kSurrounding.end())
      add_flag(app, flag.name, flag.value, help_of(flag), flag.group, flag.declared);
}

void add_global_batch_flag(CLI::App& app) {
  add_flag(app, "--global-batch", "N",
           "sequences per optimizer step, on all GPUs: --grad-accum follows from it, the micro batch and the GPUs",
           kBatch);
}

void add_choice_flags(CLI::App& app) {
  add_global_batch_flag(app);
  add_flag(app, "--as-given", "", "nothing is chosen: settings that are not given are the trainer's defaults",
           kStrategy);
  add_flag(app, "--quality", "ok|good|best",
           "least quality of what is chosen: good also trains weights in bf16 alone where --precision is not given. "
           "Default: that of the question",
           kStrategy);
}

}  // namespace gpuplan
