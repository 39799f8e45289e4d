#compdef gpuplan
# zsh completion for gpuplan, written by 'gpuplan completion zsh'
_gpuplan() {
  local -a commands
  commands=(
    'plan:what to rent and how to run it, from what you want'
    'estimate:does it fit, which strategy, how fast, at what cost'
    'export:a plan as the files of accelerate, DeepSpeed, TRL, Slurm and others'
    'simulate:what happens inside one step, and why'
    'run:execute the plan, report predicted against measured'
    'calibrate:measure this machine and fit the cost model to it'
    'profiles:list, show, compare and export what machines were measured to do'
    'validate:how far off the predictions are on published measurements'
    'topology:show what hangs where in a machine, and what transfers reach'
    'models:list, search and explain models'
    'gpus:list, search and explain GPUs'
    'completion:print a completion script for a shell, or the manual page'
  )
  if ((CURRENT == 2)); then _describe command commands; return; fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
    plan)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--model=[name (gpuplan models), Hugging Face config.json, model folder, or org/name of the Hub]:value:{compadd -- a.x-4.0-light afm-4.5b allam-7b apertus-70b apertus-8b baichuan2-13b baichuan2-7b bamba-9b bert-base bert-large bielik-11b-v3 bloom-176b bloom-1b1 bloom-1b7 bloom-3b bloom-560m bloom-7b1 bloomz-7b1 chatglm3-6b codellama-13b codellama-34b codellama-70b codellama-7b codeqwen1.5-7b danube3-500m deepseek-coder-1.3b deepseek-coder-6.7b deepseek-llm-67b deepseek-llm-7b deepseek-moe-16b deepseek-r1-distill-qwen-1.5b deepseek-v2 deepseek-v2-lite deepseek-v3 distilgpt2 dots.llm1 ernie-4.5-0.3b ernie-4.5-21b-a3b exaone4-1.2b exaone4-32b falcon-180b falcon-40b falcon-7b falcon-h1-0.5b falcon-h1-1.5b falcon-h1-1.5b-deep falcon-h1-3b falcon-h1-7b falcon-h1-7b-base falcon-mamba-7b falcon3-10b falcon3-1b falcon3-3b falcon3-7b flan-t5-base flan-t5-large flan-t5-small flan-t5-xl flan-t5-xxl foundation-sec-8b gemma-2-27b gemma-2-2b gemma-2-9b gemma-2b gemma-3-12b-multimodal gemma-3-12b-text gemma-3-1b gemma-3-270m gemma-3-27b-multimodal gemma-3-27b-text gemma-3-4b-multimodal gemma-3-4b-text gemma-3n-e2b gemma-3n-e4b gemma-4-26b-a4b gemma-4-31b gemma-4-e2b gemma-4-e4b gemma-7b glm-4-9b glm-4-9b-0414 glm-4-9b-hf glm-4.5 glm-4.5-air glm-4.7-flash glm-edge-4b gpt-j-6b gpt-neo-1.3b gpt-neo-125m gpt-neo-2.7b gpt-neox-20b gpt-oss-120b gpt-oss-20b gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-3.1-1b-a400m granite-3.1-3b-a800m granite-3.3-2b granite-3.3-8b granite-34b-code granite-3b-code granite-4.0-1b granite-4.0-350m granite-4.0-h-1b granite-4.0-h-350m granite-4.0-h-micro granite-4.0-h-small granite-4.0-h-tiny granite-4.0-micro granite-4.1-30b granite-4.1-3b granite-4.1-8b granite-8b-code hunyuan-7b hunyuan-a13b idefics3-8b internlm-7b internlm2-20b internlm2.5-7b internvl3-14b internvl3-1b internvl3-2b internvl3-8b internvl3.5-8b kimi-k2 lfm2-1.2b lfm2-2.6b lfm2-350m lfm2-700m lfm2-8b-a1b lfm2.5-8b-a1b llama-13b llama-160m llama-2-13b llama-2-70b llama-2-7b llama-3-70b llama-3-8b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-11b-vision llama-3.2-1b llama-3.2-3b llama-3.2-90b-vision llama-3.3-70b llama-30b llama-4-scout-text llama-65b llama-7b llama3-llava-next-8b llava-1.5-13b llava-1.5-7b llava-onevision-qwen2-0.5b llava-onevision-qwen2-72b llava-onevision-qwen2-7b llava-v1.6-34b llava-v1.6-mistral-7b llava-v1.6-vicuna-13b llava-v1.6-vicuna-7b llm-jp-3-150m llm-jp-4-8b mamba-1.4b mamba-130m mamba-2.8b mamba-370m mamba-790m mamba-codestral-7b minimax-m2 ministral-8b mistral-7b-v0.1 mistral-7b-v0.2 mistral-7b-v0.3 mistral-large-123b mistral-nemo-12b mistral-small-24b mistral-small-3.1-24b-text mixtral-8x22b mixtral-8x22b-instruct mixtral-8x7b mpt-125m mpt-13b mpt-1b mpt-30b mpt-350m mpt-3b mpt-70b mpt-760m mpt-7b mt0-xxl nanbeige4.1-3b nemo-minitron-8b nemotron-3-nano-30b-a3b nemotron-h-8b nemotron-mini-4b nemotron-nano-12b-v2 nemotron-nano-9b-v2 olmo-1b olmo2-13b olmo2-1b olmo2-32b olmo2-7b olmo3-32b olmo3-7b olmoe-1b-7b opt-1.3b opt-125m opt-13b opt-175b opt-2.7b opt-30b opt-350m opt-6.7b opt-66b paligemma-3b-224 paligemma-3b-448 paligemma-3b-896 paligemma2-10b-224 paligemma2-10b-448 paligemma2-10b-896 paligemma2-28b-224 paligemma2-28b-448 paligemma2-28b-896 paligemma2-3b-224 paligemma2-3b-448 paligemma2-3b-896 phi-1.5 phi-2 phi-3-medium phi-3-mini phi-3.5-mini phi-3.5-moe phi-4 phi-4-mini phi-mini-moe phi-tiny-moe powerlm-3b pythia-1.4b pythia-12b pythia-14m pythia-160m pythia-1b pythia-2.8b pythia-31m pythia-410m pythia-6.9b pythia-70m qwen-1.8b qwen-14b qwen-72b qwen-7b qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-32b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen1.5-moe-a2.7b qwen2-0.5b qwen2-1.5b qwen2-57b-a14b qwen2-72b qwen2-7b qwen2-vl-2b qwen2-vl-72b qwen2-vl-7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-14b qwen2.5-32b qwen2.5-3b qwen2.5-72b qwen2.5-7b qwen2.5-vl-32b qwen2.5-vl-3b qwen2.5-vl-7b qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3-vl-2b qwen3-vl-30b-a3b qwen3-vl-32b qwen3-vl-4b qwen3-vl-8b qwen3.5-0.8b qwen3.5-122b-a10b qwen3.5-27b qwen3.5-27b-text qwen3.5-2b qwen3.5-35b-a3b qwen3.5-35b-a3b-text qwen3.5-397b-a17b qwen3.5-4b qwen3.5-9b qwen3.5-9b-text salamandra-7b santacoder-1.1b seed-oss-36b smollm2-1.7b smollm2-135m smollm2-360m smollm3-3b smolvlm-2.2b smolvlm-256m smolvlm-500m smolvlm2-2.2b smolvlm2-256m smolvlm2-500m solar-10.7b stablelm-2-1.6b stablelm-3b-4e1t stablelm-base-alpha-3b starcoder-15.5b starcoder2-15b starcoder2-3b starcoder2-7b starcoderbase-1b stories15m t0-3b t5-11b t5-2.28b t5-3b t5-611m t5-base t5-large t5-small tiny-starcoder tinyllama-1.1b tulu-3-8b yi-1.5-9b yi-34b yi-6b; _files}' \
        '--offline[do not ask the Hugging Face Hub for a model; HF_HUB_OFFLINE does the same]' \
        '--full[train every weight (default)]' \
        '--lora=-[train adapters. SPEC\: r=8,alpha=16,dropout=0,targets=all-linear or q_proj+v_proj,dtype=fp32|bf16,base=bf16|fp32,save=lm_head+embed_tokens,dora,linear-experts. Default r=8, alpha=2r]::value: ' \
        '--qlora=-[adapters on a 4-bit base. SPEC as for --lora, and quant=nf4|gptq4,block=64,double=yes|no,storage=u8|bf16,experts]::value: ' \
        '--train-only=[of parameters or modules that alone are trained (or carry adapters), as in layers.24-31+lm_head or layers.*.mlp; * is any text. Default all]:value: ' \
        '--int8[hold the frozen base of --lora in 8 bit]' \
        '--framework=[whose conventions (dtypes, copies, buffers) and defaults apply; plain\: hf-trainer'\''s conventions alone, as without this flag]:value:{compadd -- axolotl deepspeed fms-hf-tuning hf-deepspeed hf-loop hf-trainer lightning litgpt llama-factory llm-c llm-foundry llmq megatron ms-swift native torch-fsdp1 torch torchtitan torchtune trl unsloth plain; }' \
        '--versions=[of the libraries under the framework\: transformers=4.57,peft=0.18, or installed\: those of the Python on PATH. Default the newest that gpuplan knows]:value: ' \
        '--micro-batch=[sequences per GPU and pass. Default 1 (1 to 1000000)]:value: ' \
        '--seq-len=[tokens per sequence. Default 2048 (1 to 67108864)]:value: ' \
        '--image-size=[pixels of the images of a vision-language model, before its processor resizes them. Default 512x512 (sides\: 1 to 65536)]:value: ' \
        '--images-per-row=[images of each sequence, whose tokens are part of it. Default 1 (1 to 4096)]:value: ' \
        '--train-vision=[what is trained beside the language model\: nothing, the projector, the vision tower too. Default no, or what the trainer of --framework does]:value:{compadd -- no projector all; }' \
        '--packing=[how rows fill sequences. Default packed]:value:{compadd -- packed padded dynamic; }' \
        '--grad-accum=[passes per optimizer step. Default 1 (1 to 100000)]:value: ' \
        '--rows=[rows of the data set. Default 10000 (1 to 10000000000)]:value: ' \
        '--tokens-per-row=[mean tokens of a row. Default\: the sequence length (1 to 67108864)]:value: ' \
        '--epochs=[times through the data. Default 1 (1e-06 to 1000000)]:value: ' \
        '--tokens=[tokens trained on, for example 100B\: sets the rows that hold them (1 to 20000000000000)]:value: ' \
        '--eval-batch=[sequences per GPU in evaluation. Default\: the micro batch (1 to 1000000)]:value: ' \
        '--eval-logits=[logits that evaluation leaves on the device\: none (loss alone), of the last batch, of all. Default none]:value:{compadd -- none last kept; }' \
        '--eval-generate=[tokens generated per sequence in evaluation. Default 0 (0 to 67108864)]:value: ' \
        '--precision=[of weights and computation. Default bf16-mixed]:value:{compadd -- bf16-true bf16-mixed fp16-mixed fp32; }' \
        '--optimizer=[adamw-fused, adamw-8bit, paged-adamw, adafactor, lion, sgd, muon, ... Default\: what the framework uses]:value:{compadd -- adamw-fused adamw-foreach adamw-loop adamw-apex adamw-8bit paged-adamw paged-adamw-8bit adamw-bf16-states adamw-bf16-kahan adafactor lion lion-8bit sgd sgd-momentum muon; }' \
        '--optimizer-in-backward[step each weight as soon as its gradient is there]' \
        '--checkpointing=[activations recomputed in backward. Default none (K\: 1 to 100000)]:value:{compadd -- none full selective elementwise every=; }' \
        '--attention=[attention kernel. Default sdpa]:value:{compadd -- eager sdpa flash flash-3 cudnn; }' \
        '--kernels=[norm and MLP kernels. Default\: what the framework uses]:value:{compadd -- plain fused; }' \
        '--compile[layers and loss through torch.compile\: fused ops, fewer launches]' \
        '--fp8[layers multiply in fp8 (Ada, Hopper and later); states and activations as without]' \
        '--qat=[fake quantisers of torchao around the linears\: of weights, or of inputs and weights. Default none]:value:{compadd -- none int4 int8-int4 fp8 nvfp4 mxfp4; }' \
        '--loss=[cross-entropy. Default plain (N\: 1 to 65536)]:value:{compadd -- plain inplace chunked fused; }' \
        '--offload=[of optimizer, params, activations; to the host, or optimizer\:nvme, params\:nvme. Default none]:value: ' \
        '--gpus=[4xA6000, 2x4090,2x3090, local (these GPUs, as free as they are), 2xcpu]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--gpu-spec=[a card of --gpus as you describe it\: '\''3060\:12GiB,360GB/s,25TFLOPS'\'' is memory, bandwidth, dense 16-bit rate; then link=pcie4x16, cc=8.6, fp8=, fp32=, sms=, p2p=yes. Several\: '\'';'\'' between]:value: ' \
        '--cluster=[a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL'\''s topology dump]:value:{compadd -- 4xRTX6000Ada-hoststaged aws-g4dn.12xlarge aws-g5.12xlarge aws-g5.48xlarge aws-g6.48xlarge aws-g6e.12xlarge aws-g6e.48xlarge aws-p3.16xlarge aws-p3dn.24xlarge aws-p4d.24xlarge aws-p4de.24xlarge aws-p5.48xlarge aws-p5en.48xlarge aws-p6-b200.48xlarge azure-nc96ads-a100-v4 azure-nd96amsr-a100-v4 azure-nd96asr-v4 azure-nd96isr-h100-v5 azure-nd96isr-mi300x-v5 dgx-1v dgx-2 dgx-a100-40gb dgx-a100-80gb dgx-b200 dgx-h100 dgx-h200 gb200-nvl72 gcp-a2-highgpu-8g gcp-a2-ultragpu-8g gcp-a3-highgpu-8g gcp-a3-megagpu-8g gcp-a3-ultragpu-8g hgx-a800 hgx-h800 hgx-mi300x hgx-mi325x lambda-2x-h100-sxm lambda-4x-a6000 lambda-8x-a100-80gb lambda-8x-v100 srv-8x-4090 srv-8x-5090 srv-8x-a100-pcie srv-8x-l40s srv-8x-rtx-pro-6000-switch ws-2x-3090-nvlink ws-2x-4090 ws-2x-5090 ws-2x-a6000-nvlink ws-4x-3090 ws-4x-4090 ws-4x-6000-ada ws-4x-a6000-nvlink; _files}' \
        '--gpu=[which GPU it is, where the file of --cluster does not say]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--num-gpus=[GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster (1 to 131072)]:value: ' \
        '--profile=[id (gpuplan profiles) or file of a calibration, or '\''default'\''. Default\: the newest of such GPUs, else the shipped one]:value:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '--price-per-gpu-hour=[US dollars. Default\: of one vendor of the catalogue (gpuplan gpus) (0 to 1000000)]:value: ' \
        '--strategy=[only this one; --zero 3 is zero3. Default auto\: all, and a recommendation]:value:{compadd -- auto single mp ddp zero1 zero2 zero3 fsdp fsdp-grad-op hsdp; }' \
        '--shard-size=[GPUs over which state is sharded. Default all; hsdp\: a node, or half (1 to 1000000)]:value: ' \
        '--fsdp-version=[FullyShardedDataParallel or fully_shard. Default 2]:value:{compadd -- 1 2; }' \
        '--wrap=[FSDP units\: layers, or at least N parameters. Default layer (N\: 1 to 100000000000000)]:value:{compadd -- layer size:; }' \
        '--overlap-comm=[DeepSpeed reduces gradients beside compute. Default\: what the configuration of --framework says]:value:{compadd -- on off; }' \
        '--reduce-bucket-size=[elements that DeepSpeed reduces at once. Default\: as above (1 to 1000000000000)]:value: ' \
        '--zero-quantized-weights[ZeRO-3 gathers weights in 8 bit (ZeRO++)]' \
        '--no-reshard[FSDP keeps gathered weights from forward to backward]' \
        '--prefer=[what the recommendation minimises. Default speed]:value:{compadd -- speed cost memory; }' \
        '--from=[a configuration of accelerate, DeepSpeed, transformers, TRL, axolotl, LLaMA-Factory, ms-swift or torchtune, a shell or Slurm script that starts a training, a Python script or notebook that sets one up, PEFT'\''s adapter_config.json, a plan, or a log with PyTorch'\''s out-of-memory message; may be repeated. Flags override it. --deepspeed FILE is the same]:value:{_files}' \
        '--lengths=[a length in tokens per line, a length and a count, or JSON lines with input_ids\: what packing gains, what the longest row needs]:value:{_files}' \
        '--data=[the same from the data itself\: JSON lines with input_ids, or with text and the tokenizer.model of --model]:value:{_files}' \
        '--tokenizer=[where the tokenizer.model for --data is. Default\: the folder of --model]:value: ' \
        '--method=[methods to choose from. Default\: full and lora]:value:{compadd -- any full lora qlora; }' \
        '--quality=[the least\: full training, LoRA, QLoRA. Default good]:value:{compadd -- best good ok; }' \
        '--global-batch=[sequences per optimizer step, on all GPUs. Default about 64 (1 to 65536)]:value: ' \
        '--under=[all of the training within this time, e.g. 6h (1 s to 10000 d)]:value: ' \
        '--budget=[all of the training for this much (0.01 to 1000000000000)]:value: ' \
        '--min=[the plan with the fewest GPUs, or the cheapest, or the fastest]:value:{compadd -- gpus cost time; }' \
        '--max=[the longest sequence, the largest micro batch, or the largest model that fits]:value:{compadd -- context batch model; }' \
        '--largest[a table of the models of the catalogue that could be trained here, by context]' \
        '--top=[rows shown at most. Default 4 (1 to 10)]:value: ' \
        '--vendor=[only machines of this vendor]:value: ' \
        '--spot[also machines that may be taken away, with the time that restarts cost]' \
        '--prices=[YAML with a list `prices` of {gpu, vendor, usd_per_gpu_hour}, in place of the catalogue'\''s]:value:{_files}' \
        '--json[the answer as JSON, in base units]' \
        '--html=[write a page with the plans as a chart; it works offline]:value:{_files}' \
        '--save=[write the recommended plan; nothing when there is none]:value:{_files}' \
        '--force[replace files that gpuplan did not write]'
      ;;
    estimate)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--model=[name (gpuplan models), Hugging Face config.json, model folder, or org/name of the Hub]:value:{compadd -- a.x-4.0-light afm-4.5b allam-7b apertus-70b apertus-8b baichuan2-13b baichuan2-7b bamba-9b bert-base bert-large bielik-11b-v3 bloom-176b bloom-1b1 bloom-1b7 bloom-3b bloom-560m bloom-7b1 bloomz-7b1 chatglm3-6b codellama-13b codellama-34b codellama-70b codellama-7b codeqwen1.5-7b danube3-500m deepseek-coder-1.3b deepseek-coder-6.7b deepseek-llm-67b deepseek-llm-7b deepseek-moe-16b deepseek-r1-distill-qwen-1.5b deepseek-v2 deepseek-v2-lite deepseek-v3 distilgpt2 dots.llm1 ernie-4.5-0.3b ernie-4.5-21b-a3b exaone4-1.2b exaone4-32b falcon-180b falcon-40b falcon-7b falcon-h1-0.5b falcon-h1-1.5b falcon-h1-1.5b-deep falcon-h1-3b falcon-h1-7b falcon-h1-7b-base falcon-mamba-7b falcon3-10b falcon3-1b falcon3-3b falcon3-7b flan-t5-base flan-t5-large flan-t5-small flan-t5-xl flan-t5-xxl foundation-sec-8b gemma-2-27b gemma-2-2b gemma-2-9b gemma-2b gemma-3-12b-multimodal gemma-3-12b-text gemma-3-1b gemma-3-270m gemma-3-27b-multimodal gemma-3-27b-text gemma-3-4b-multimodal gemma-3-4b-text gemma-3n-e2b gemma-3n-e4b gemma-4-26b-a4b gemma-4-31b gemma-4-e2b gemma-4-e4b gemma-7b glm-4-9b glm-4-9b-0414 glm-4-9b-hf glm-4.5 glm-4.5-air glm-4.7-flash glm-edge-4b gpt-j-6b gpt-neo-1.3b gpt-neo-125m gpt-neo-2.7b gpt-neox-20b gpt-oss-120b gpt-oss-20b gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-3.1-1b-a400m granite-3.1-3b-a800m granite-3.3-2b granite-3.3-8b granite-34b-code granite-3b-code granite-4.0-1b granite-4.0-350m granite-4.0-h-1b granite-4.0-h-350m granite-4.0-h-micro granite-4.0-h-small granite-4.0-h-tiny granite-4.0-micro granite-4.1-30b granite-4.1-3b granite-4.1-8b granite-8b-code hunyuan-7b hunyuan-a13b idefics3-8b internlm-7b internlm2-20b internlm2.5-7b internvl3-14b internvl3-1b internvl3-2b internvl3-8b internvl3.5-8b kimi-k2 lfm2-1.2b lfm2-2.6b lfm2-350m lfm2-700m lfm2-8b-a1b lfm2.5-8b-a1b llama-13b llama-160m llama-2-13b llama-2-70b llama-2-7b llama-3-70b llama-3-8b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-11b-vision llama-3.2-1b llama-3.2-3b llama-3.2-90b-vision llama-3.3-70b llama-30b llama-4-scout-text llama-65b llama-7b llama3-llava-next-8b llava-1.5-13b llava-1.5-7b llava-onevision-qwen2-0.5b llava-onevision-qwen2-72b llava-onevision-qwen2-7b llava-v1.6-34b llava-v1.6-mistral-7b llava-v1.6-vicuna-13b llava-v1.6-vicuna-7b llm-jp-3-150m llm-jp-4-8b mamba-1.4b mamba-130m mamba-2.8b mamba-370m mamba-790m mamba-codestral-7b minimax-m2 ministral-8b mistral-7b-v0.1 mistral-7b-v0.2 mistral-7b-v0.3 mistral-large-123b mistral-nemo-12b mistral-small-24b mistral-small-3.1-24b-text mixtral-8x22b mixtral-8x22b-instruct mixtral-8x7b mpt-125m mpt-13b mpt-1b mpt-30b mpt-350m mpt-3b mpt-70b mpt-760m mpt-7b mt0-xxl nanbeige4.1-3b nemo-minitron-8b nemotron-3-nano-30b-a3b nemotron-h-8b nemotron-mini-4b nemotron-nano-12b-v2 nemotron-nano-9b-v2 olmo-1b olmo2-13b olmo2-1b olmo2-32b olmo2-7b olmo3-32b olmo3-7b olmoe-1b-7b opt-1.3b opt-125m opt-13b opt-175b opt-2.7b opt-30b opt-350m opt-6.7b opt-66b paligemma-3b-224 paligemma-3b-448 paligemma-3b-896 paligemma2-10b-224 paligemma2-10b-448 paligemma2-10b-896 paligemma2-28b-224 paligemma2-28b-448 paligemma2-28b-896 paligemma2-3b-224 paligemma2-3b-448 paligemma2-3b-896 phi-1.5 phi-2 phi-3-medium phi-3-mini phi-3.5-mini phi-3.5-moe phi-4 phi-4-mini phi-mini-moe phi-tiny-moe powerlm-3b pythia-1.4b pythia-12b pythia-14m pythia-160m pythia-1b pythia-2.8b pythia-31m pythia-410m pythia-6.9b pythia-70m qwen-1.8b qwen-14b qwen-72b qwen-7b qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-32b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen1.5-moe-a2.7b qwen2-0.5b qwen2-1.5b qwen2-57b-a14b qwen2-72b qwen2-7b qwen2-vl-2b qwen2-vl-72b qwen2-vl-7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-14b qwen2.5-32b qwen2.5-3b qwen2.5-72b qwen2.5-7b qwen2.5-vl-32b qwen2.5-vl-3b qwen2.5-vl-7b qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3-vl-2b qwen3-vl-30b-a3b qwen3-vl-32b qwen3-vl-4b qwen3-vl-8b qwen3.5-0.8b qwen3.5-122b-a10b qwen3.5-27b qwen3.5-27b-text qwen3.5-2b qwen3.5-35b-a3b qwen3.5-35b-a3b-text qwen3.5-397b-a17b qwen3.5-4b qwen3.5-9b qwen3.5-9b-text salamandra-7b santacoder-1.1b seed-oss-36b smollm2-1.7b smollm2-135m smollm2-360m smollm3-3b smolvlm-2.2b smolvlm-256m smolvlm-500m smolvlm2-2.2b smolvlm2-256m smolvlm2-500m solar-10.7b stablelm-2-1.6b stablelm-3b-4e1t stablelm-base-alpha-3b starcoder-15.5b starcoder2-15b starcoder2-3b starcoder2-7b starcoderbase-1b stories15m t0-3b t5-11b t5-2.28b t5-3b t5-611m t5-base t5-large t5-small tiny-starcoder tinyllama-1.1b tulu-3-8b yi-1.5-9b yi-34b yi-6b; _files}' \
        '--offline[do not ask the Hugging Face Hub for a model; HF_HUB_OFFLINE does the same]' \
        '--full[train every weight (default)]' \
        '--lora=-[train adapters. SPEC\: r=8,alpha=16,dropout=0,targets=all-linear or q_proj+v_proj,dtype=fp32|bf16,base=bf16|fp32,save=lm_head+embed_tokens,dora,linear-experts. Default r=8, alpha=2r]::value: ' \
        '--qlora=-[adapters on a 4-bit base. SPEC as for --lora, and quant=nf4|gptq4,block=64,double=yes|no,storage=u8|bf16,experts]::value: ' \
        '--train-only=[of parameters or modules that alone are trained (or carry adapters), as in layers.24-31+lm_head or layers.*.mlp; * is any text. Default all]:value: ' \
        '--int8[hold the frozen base of --lora in 8 bit]' \
        '--framework=[whose conventions (dtypes, copies, buffers) and defaults apply; plain\: hf-trainer'\''s conventions alone, as without this flag]:value:{compadd -- axolotl deepspeed fms-hf-tuning hf-deepspeed hf-loop hf-trainer lightning litgpt llama-factory llm-c llm-foundry llmq megatron ms-swift native torch-fsdp1 torch torchtitan torchtune trl unsloth plain; }' \
        '--versions=[of the libraries under the framework\: transformers=4.57,peft=0.18, or installed\: those of the Python on PATH. Default the newest that gpuplan knows]:value: ' \
        '--micro-batch=[sequences per GPU and pass. Default 1 (1 to 1000000)]:value: ' \
        '--seq-len=[tokens per sequence. Default 2048 (1 to 67108864)]:value: ' \
        '--image-size=[pixels of the images of a vision-language model, before its processor resizes them. Default 512x512 (sides\: 1 to 65536)]:value: ' \
        '--images-per-row=[images of each sequence, whose tokens are part of it. Default 1 (1 to 4096)]:value: ' \
        '--train-vision=[what is trained beside the language model\: nothing, the projector, the vision tower too. Default no, or what the trainer of --framework does]:value:{compadd -- no projector all; }' \
        '--packing=[how rows fill sequences. Default packed]:value:{compadd -- packed padded dynamic; }' \
        '--grad-accum=[passes per optimizer step. Default 1 (1 to 100000)]:value: ' \
        '--rows=[rows of the data set. Default 10000 (1 to 10000000000)]:value: ' \
        '--tokens-per-row=[mean tokens of a row. Default\: the sequence length (1 to 67108864)]:value: ' \
        '--epochs=[times through the data. Default 1 (1e-06 to 1000000)]:value: ' \
        '--tokens=[tokens trained on, for example 100B\: sets the rows that hold them (1 to 20000000000000)]:value: ' \
        '--eval-batch=[sequences per GPU in evaluation. Default\: the micro batch (1 to 1000000)]:value: ' \
        '--eval-logits=[logits that evaluation leaves on the device\: none (loss alone), of the last batch, of all. Default none]:value:{compadd -- none last kept; }' \
        '--eval-generate=[tokens generated per sequence in evaluation. Default 0 (0 to 67108864)]:value: ' \
        '--precision=[of weights and computation. Default bf16-mixed]:value:{compadd -- bf16-true bf16-mixed fp16-mixed fp32; }' \
        '--optimizer=[adamw-fused, adamw-8bit, paged-adamw, adafactor, lion, sgd, muon, ... Default\: what the framework uses]:value:{compadd -- adamw-fused adamw-foreach adamw-loop adamw-apex adamw-8bit paged-adamw paged-adamw-8bit adamw-bf16-states adamw-bf16-kahan adafactor lion lion-8bit sgd sgd-momentum muon; }' \
        '--optimizer-in-backward[step each weight as soon as its gradient is there]' \
        '--checkpointing=[activations recomputed in backward. Default none (K\: 1 to 100000)]:value:{compadd -- none full selective elementwise every=; }' \
        '--attention=[attention kernel. Default sdpa]:value:{compadd -- eager sdpa flash flash-3 cudnn; }' \
        '--kernels=[norm and MLP kernels. Default\: what the framework uses]:value:{compadd -- plain fused; }' \
        '--compile[layers and loss through torch.compile\: fused ops, fewer launches]' \
        '--fp8[layers multiply in fp8 (Ada, Hopper and later); states and activations as without]' \
        '--qat=[fake quantisers of torchao around the linears\: of weights, or of inputs and weights. Default none]:value:{compadd -- none int4 int8-int4 fp8 nvfp4 mxfp4; }' \
        '--loss=[cross-entropy. Default plain (N\: 1 to 65536)]:value:{compadd -- plain inplace chunked fused; }' \
        '--offload=[of optimizer, params, activations; to the host, or optimizer\:nvme, params\:nvme. Default none]:value: ' \
        '--gpus=[4xA6000, 2x4090,2x3090, local (these GPUs, as free as they are), 2xcpu]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--gpu-spec=[a card of --gpus as you describe it\: '\''3060\:12GiB,360GB/s,25TFLOPS'\'' is memory, bandwidth, dense 16-bit rate; then link=pcie4x16, cc=8.6, fp8=, fp32=, sms=, p2p=yes. Several\: '\'';'\'' between]:value: ' \
        '--cluster=[a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL'\''s topology dump]:value:{compadd -- 4xRTX6000Ada-hoststaged aws-g4dn.12xlarge aws-g5.12xlarge aws-g5.48xlarge aws-g6.48xlarge aws-g6e.12xlarge aws-g6e.48xlarge aws-p3.16xlarge aws-p3dn.24xlarge aws-p4d.24xlarge aws-p4de.24xlarge aws-p5.48xlarge aws-p5en.48xlarge aws-p6-b200.48xlarge azure-nc96ads-a100-v4 azure-nd96amsr-a100-v4 azure-nd96asr-v4 azure-nd96isr-h100-v5 azure-nd96isr-mi300x-v5 dgx-1v dgx-2 dgx-a100-40gb dgx-a100-80gb dgx-b200 dgx-h100 dgx-h200 gb200-nvl72 gcp-a2-highgpu-8g gcp-a2-ultragpu-8g gcp-a3-highgpu-8g gcp-a3-megagpu-8g gcp-a3-ultragpu-8g hgx-a800 hgx-h800 hgx-mi300x hgx-mi325x lambda-2x-h100-sxm lambda-4x-a6000 lambda-8x-a100-80gb lambda-8x-v100 srv-8x-4090 srv-8x-5090 srv-8x-a100-pcie srv-8x-l40s srv-8x-rtx-pro-6000-switch ws-2x-3090-nvlink ws-2x-4090 ws-2x-5090 ws-2x-a6000-nvlink ws-4x-3090 ws-4x-4090 ws-4x-6000-ada ws-4x-a6000-nvlink; _files}' \
        '--gpu=[which GPU it is, where the file of --cluster does not say]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--num-gpus=[GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster (1 to 131072)]:value: ' \
        '--profile=[id (gpuplan profiles) or file of a calibration, or '\''default'\''. Default\: the newest of such GPUs, else the shipped one]:value:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '--price-per-gpu-hour=[US dollars. Default\: of one vendor of the catalogue (gpuplan gpus) (0 to 1000000)]:value: ' \
        '--strategy=[only this one; --zero 3 is zero3. Default auto\: all, and a recommendation]:value:{compadd -- auto single mp ddp zero1 zero2 zero3 fsdp fsdp-grad-op hsdp; }' \
        '--shard-size=[GPUs over which state is sharded. Default all; hsdp\: a node, or half (1 to 1000000)]:value: ' \
        '--fsdp-version=[FullyShardedDataParallel or fully_shard. Default 2]:value:{compadd -- 1 2; }' \
        '--wrap=[FSDP units\: layers, or at least N parameters. Default layer (N\: 1 to 100000000000000)]:value:{compadd -- layer size:; }' \
        '--overlap-comm=[DeepSpeed reduces gradients beside compute. Default\: what the configuration of --framework says]:value:{compadd -- on off; }' \
        '--reduce-bucket-size=[elements that DeepSpeed reduces at once. Default\: as above (1 to 1000000000000)]:value: ' \
        '--zero-quantized-weights[ZeRO-3 gathers weights in 8 bit (ZeRO++)]' \
        '--no-reshard[FSDP keeps gathered weights from forward to backward]' \
        '--prefer=[what the recommendation minimises. Default speed]:value:{compadd -- speed cost memory; }' \
        '--from=[a configuration of accelerate, DeepSpeed, transformers, TRL, axolotl, LLaMA-Factory, ms-swift or torchtune, a shell or Slurm script that starts a training, a Python script or notebook that sets one up, PEFT'\''s adapter_config.json, a plan, or a log with PyTorch'\''s out-of-memory message; may be repeated. Flags override it. --deepspeed FILE is the same]:value:{_files}' \
        '--lengths=[a length in tokens per line, a length and a count, or JSON lines with input_ids\: what packing gains, what the longest row needs]:value:{_files}' \
        '--data=[the same from the data itself\: JSON lines with input_ids, or with text and the tokenizer.model of --model]:value:{_files}' \
        '--tokenizer=[where the tokenizer.model for --data is. Default\: the folder of --model]:value: ' \
        '--explain[show every term behind the figures, with its source]' \
        '--details[also the peaks of loading, evaluation and saving, per GPU and host]' \
        '--json[the answer as JSON, in base units]' \
        '--save=[write the recommended plan, or that of --strategy; nothing when none fits]:value:{_files}' \
        '--force[replace files that gpuplan did not write]'
      ;;
    export)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--for=[which program\: accelerate, deepspeed, torchrun, transformers, trl, torch, torchtune, axolotl, llama-factory, slurm, skypilot, kubeflow]:value: ' \
        '--versions=[of the programs that will read the files\: accelerate=1.10,torch=2.6. Default\: the newest that is known]:value: ' \
        '--data=[what the files train on\: JSON lines, or a set on the Hub. Default\: a small public set]:value: ' \
        '--output=[write the files there; without it they are printed]:value: ' \
        '--force[replace files that are there]'
      ;;
    simulate)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--model=[name (gpuplan models), Hugging Face config.json, model folder, or org/name of the Hub]:value:{compadd -- a.x-4.0-light afm-4.5b allam-7b apertus-70b apertus-8b baichuan2-13b baichuan2-7b bamba-9b bert-base bert-large bielik-11b-v3 bloom-176b bloom-1b1 bloom-1b7 bloom-3b bloom-560m bloom-7b1 bloomz-7b1 chatglm3-6b codellama-13b codellama-34b codellama-70b codellama-7b codeqwen1.5-7b danube3-500m deepseek-coder-1.3b deepseek-coder-6.7b deepseek-llm-67b deepseek-llm-7b deepseek-moe-16b deepseek-r1-distill-qwen-1.5b deepseek-v2 deepseek-v2-lite deepseek-v3 distilgpt2 dots.llm1 ernie-4.5-0.3b ernie-4.5-21b-a3b exaone4-1.2b exaone4-32b falcon-180b falcon-40b falcon-7b falcon-h1-0.5b falcon-h1-1.5b falcon-h1-1.5b-deep falcon-h1-3b falcon-h1-7b falcon-h1-7b-base falcon-mamba-7b falcon3-10b falcon3-1b falcon3-3b falcon3-7b flan-t5-base flan-t5-large flan-t5-small flan-t5-xl flan-t5-xxl foundation-sec-8b gemma-2-27b gemma-2-2b gemma-2-9b gemma-2b gemma-3-12b-multimodal gemma-3-12b-text gemma-3-1b gemma-3-270m gemma-3-27b-multimodal gemma-3-27b-text gemma-3-4b-multimodal gemma-3-4b-text gemma-3n-e2b gemma-3n-e4b gemma-4-26b-a4b gemma-4-31b gemma-4-e2b gemma-4-e4b gemma-7b glm-4-9b glm-4-9b-0414 glm-4-9b-hf glm-4.5 glm-4.5-air glm-4.7-flash glm-edge-4b gpt-j-6b gpt-neo-1.3b gpt-neo-125m gpt-neo-2.7b gpt-neox-20b gpt-oss-120b gpt-oss-20b gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-3.1-1b-a400m granite-3.1-3b-a800m granite-3.3-2b granite-3.3-8b granite-34b-code granite-3b-code granite-4.0-1b granite-4.0-350m granite-4.0-h-1b granite-4.0-h-350m granite-4.0-h-micro granite-4.0-h-small granite-4.0-h-tiny granite-4.0-micro granite-4.1-30b granite-4.1-3b granite-4.1-8b granite-8b-code hunyuan-7b hunyuan-a13b idefics3-8b internlm-7b internlm2-20b internlm2.5-7b internvl3-14b internvl3-1b internvl3-2b internvl3-8b internvl3.5-8b kimi-k2 lfm2-1.2b lfm2-2.6b lfm2-350m lfm2-700m lfm2-8b-a1b lfm2.5-8b-a1b llama-13b llama-160m llama-2-13b llama-2-70b llama-2-7b llama-3-70b llama-3-8b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-11b-vision llama-3.2-1b llama-3.2-3b llama-3.2-90b-vision llama-3.3-70b llama-30b llama-4-scout-text llama-65b llama-7b llama3-llava-next-8b llava-1.5-13b llava-1.5-7b llava-onevision-qwen2-0.5b llava-onevision-qwen2-72b llava-onevision-qwen2-7b llava-v1.6-34b llava-v1.6-mistral-7b llava-v1.6-vicuna-13b llava-v1.6-vicuna-7b llm-jp-3-150m llm-jp-4-8b mamba-1.4b mamba-130m mamba-2.8b mamba-370m mamba-790m mamba-codestral-7b minimax-m2 ministral-8b mistral-7b-v0.1 mistral-7b-v0.2 mistral-7b-v0.3 mistral-large-123b mistral-nemo-12b mistral-small-24b mistral-small-3.1-24b-text mixtral-8x22b mixtral-8x22b-instruct mixtral-8x7b mpt-125m mpt-13b mpt-1b mpt-30b mpt-350m mpt-3b mpt-70b mpt-760m mpt-7b mt0-xxl nanbeige4.1-3b nemo-minitron-8b nemotron-3-nano-30b-a3b nemotron-h-8b nemotron-mini-4b nemotron-nano-12b-v2 nemotron-nano-9b-v2 olmo-1b olmo2-13b olmo2-1b olmo2-32b olmo2-7b olmo3-32b olmo3-7b olmoe-1b-7b opt-1.3b opt-125m opt-13b opt-175b opt-2.7b opt-30b opt-350m opt-6.7b opt-66b paligemma-3b-224 paligemma-3b-448 paligemma-3b-896 paligemma2-10b-224 paligemma2-10b-448 paligemma2-10b-896 paligemma2-28b-224 paligemma2-28b-448 paligemma2-28b-896 paligemma2-3b-224 paligemma2-3b-448 paligemma2-3b-896 phi-1.5 phi-2 phi-3-medium phi-3-mini phi-3.5-mini phi-3.5-moe phi-4 phi-4-mini phi-mini-moe phi-tiny-moe powerlm-3b pythia-1.4b pythia-12b pythia-14m pythia-160m pythia-1b pythia-2.8b pythia-31m pythia-410m pythia-6.9b pythia-70m qwen-1.8b qwen-14b qwen-72b qwen-7b qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-32b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen1.5-moe-a2.7b qwen2-0.5b qwen2-1.5b qwen2-57b-a14b qwen2-72b qwen2-7b qwen2-vl-2b qwen2-vl-72b qwen2-vl-7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-14b qwen2.5-32b qwen2.5-3b qwen2.5-72b qwen2.5-7b qwen2.5-vl-32b qwen2.5-vl-3b qwen2.5-vl-7b qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3-vl-2b qwen3-vl-30b-a3b qwen3-vl-32b qwen3-vl-4b qwen3-vl-8b qwen3.5-0.8b qwen3.5-122b-a10b qwen3.5-27b qwen3.5-27b-text qwen3.5-2b qwen3.5-35b-a3b qwen3.5-35b-a3b-text qwen3.5-397b-a17b qwen3.5-4b qwen3.5-9b qwen3.5-9b-text salamandra-7b santacoder-1.1b seed-oss-36b smollm2-1.7b smollm2-135m smollm2-360m smollm3-3b smolvlm-2.2b smolvlm-256m smolvlm-500m smolvlm2-2.2b smolvlm2-256m smolvlm2-500m solar-10.7b stablelm-2-1.6b stablelm-3b-4e1t stablelm-base-alpha-3b starcoder-15.5b starcoder2-15b starcoder2-3b starcoder2-7b starcoderbase-1b stories15m t0-3b t5-11b t5-2.28b t5-3b t5-611m t5-base t5-large t5-small tiny-starcoder tinyllama-1.1b tulu-3-8b yi-1.5-9b yi-34b yi-6b; _files}' \
        '--offline[do not ask the Hugging Face Hub for a model; HF_HUB_OFFLINE does the same]' \
        '--full[train every weight (default)]' \
        '--lora=-[train adapters. SPEC\: r=8,alpha=16,dropout=0,targets=all-linear or q_proj+v_proj,dtype=fp32|bf16,base=bf16|fp32,save=lm_head+embed_tokens,dora,linear-experts. Default r=8, alpha=2r]::value: ' \
        '--qlora=-[adapters on a 4-bit base. SPEC as for --lora, and quant=nf4|gptq4,block=64,double=yes|no,storage=u8|bf16,experts]::value: ' \
        '--train-only=[of parameters or modules that alone are trained (or carry adapters), as in layers.24-31+lm_head or layers.*.mlp; * is any text. Default all]:value: ' \
        '--int8[hold the frozen base of --lora in 8 bit]' \
        '--framework=[whose conventions (dtypes, copies, buffers) and defaults apply; plain\: hf-trainer'\''s conventions alone, as without this flag]:value:{compadd -- axolotl deepspeed fms-hf-tuning hf-deepspeed hf-loop hf-trainer lightning litgpt llama-factory llm-c llm-foundry llmq megatron ms-swift native torch-fsdp1 torch torchtitan torchtune trl unsloth plain; }' \
        '--versions=[of the libraries under the framework\: transformers=4.57,peft=0.18, or installed\: those of the Python on PATH. Default the newest that gpuplan knows]:value: ' \
        '--micro-batch=[sequences per GPU and pass. Default 1 (1 to 1000000)]:value: ' \
        '--seq-len=[tokens per sequence. Default 2048 (1 to 67108864)]:value: ' \
        '--image-size=[pixels of the images of a vision-language model, before its processor resizes them. Default 512x512 (sides\: 1 to 65536)]:value: ' \
        '--images-per-row=[images of each sequence, whose tokens are part of it. Default 1 (1 to 4096)]:value: ' \
        '--train-vision=[what is trained beside the language model\: nothing, the projector, the vision tower too. Default no, or what the trainer of --framework does]:value:{compadd -- no projector all; }' \
        '--packing=[how rows fill sequences. Default packed]:value:{compadd -- packed padded dynamic; }' \
        '--grad-accum=[passes per optimizer step. Default 1 (1 to 100000)]:value: ' \
        '--rows=[rows of the data set. Default 10000 (1 to 10000000000)]:value: ' \
        '--tokens-per-row=[mean tokens of a row. Default\: the sequence length (1 to 67108864)]:value: ' \
        '--epochs=[times through the data. Default 1 (1e-06 to 1000000)]:value: ' \
        '--tokens=[tokens trained on, for example 100B\: sets the rows that hold them (1 to 20000000000000)]:value: ' \
        '--eval-batch=[sequences per GPU in evaluation. Default\: the micro batch (1 to 1000000)]:value: ' \
        '--eval-logits=[logits that evaluation leaves on the device\: none (loss alone), of the last batch, of all. Default none]:value:{compadd -- none last kept; }' \
        '--eval-generate=[tokens generated per sequence in evaluation. Default 0 (0 to 67108864)]:value: ' \
        '--precision=[of weights and computation. Default bf16-mixed]:value:{compadd -- bf16-true bf16-mixed fp16-mixed fp32; }' \
        '--optimizer=[adamw-fused, adamw-8bit, paged-adamw, adafactor, lion, sgd, muon, ... Default\: what the framework uses]:value:{compadd -- adamw-fused adamw-foreach adamw-loop adamw-apex adamw-8bit paged-adamw paged-adamw-8bit adamw-bf16-states adamw-bf16-kahan adafactor lion lion-8bit sgd sgd-momentum muon; }' \
        '--optimizer-in-backward[step each weight as soon as its gradient is there]' \
        '--checkpointing=[activations recomputed in backward. Default none (K\: 1 to 100000)]:value:{compadd -- none full selective elementwise every=; }' \
        '--attention=[attention kernel. Default sdpa]:value:{compadd -- eager sdpa flash flash-3 cudnn; }' \
        '--kernels=[norm and MLP kernels. Default\: what the framework uses]:value:{compadd -- plain fused; }' \
        '--compile[layers and loss through torch.compile\: fused ops, fewer launches]' \
        '--fp8[layers multiply in fp8 (Ada, Hopper and later); states and activations as without]' \
        '--qat=[fake quantisers of torchao around the linears\: of weights, or of inputs and weights. Default none]:value:{compadd -- none int4 int8-int4 fp8 nvfp4 mxfp4; }' \
        '--loss=[cross-entropy. Default plain (N\: 1 to 65536)]:value:{compadd -- plain inplace chunked fused; }' \
        '--offload=[of optimizer, params, activations; to the host, or optimizer\:nvme, params\:nvme. Default none]:value: ' \
        '--gpus=[4xA6000, 2x4090,2x3090, local (these GPUs, as free as they are), 2xcpu]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--gpu-spec=[a card of --gpus as you describe it\: '\''3060\:12GiB,360GB/s,25TFLOPS'\'' is memory, bandwidth, dense 16-bit rate; then link=pcie4x16, cc=8.6, fp8=, fp32=, sms=, p2p=yes. Several\: '\'';'\'' between]:value: ' \
        '--cluster=[a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL'\''s topology dump]:value:{compadd -- 4xRTX6000Ada-hoststaged aws-g4dn.12xlarge aws-g5.12xlarge aws-g5.48xlarge aws-g6.48xlarge aws-g6e.12xlarge aws-g6e.48xlarge aws-p3.16xlarge aws-p3dn.24xlarge aws-p4d.24xlarge aws-p4de.24xlarge aws-p5.48xlarge aws-p5en.48xlarge aws-p6-b200.48xlarge azure-nc96ads-a100-v4 azure-nd96amsr-a100-v4 azure-nd96asr-v4 azure-nd96isr-h100-v5 azure-nd96isr-mi300x-v5 dgx-1v dgx-2 dgx-a100-40gb dgx-a100-80gb dgx-b200 dgx-h100 dgx-h200 gb200-nvl72 gcp-a2-highgpu-8g gcp-a2-ultragpu-8g gcp-a3-highgpu-8g gcp-a3-megagpu-8g gcp-a3-ultragpu-8g hgx-a800 hgx-h800 hgx-mi300x hgx-mi325x lambda-2x-h100-sxm lambda-4x-a6000 lambda-8x-a100-80gb lambda-8x-v100 srv-8x-4090 srv-8x-5090 srv-8x-a100-pcie srv-8x-l40s srv-8x-rtx-pro-6000-switch ws-2x-3090-nvlink ws-2x-4090 ws-2x-5090 ws-2x-a6000-nvlink ws-4x-3090 ws-4x-4090 ws-4x-6000-ada ws-4x-a6000-nvlink; _files}' \
        '--gpu=[which GPU it is, where the file of --cluster does not say]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--num-gpus=[GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster (1 to 131072)]:value: ' \
        '--profile=[id (gpuplan profiles) or file of a calibration, or '\''default'\''. Default\: the newest of such GPUs, else the shipped one]:value:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '--price-per-gpu-hour=[US dollars. Default\: of one vendor of the catalogue (gpuplan gpus) (0 to 1000000)]:value: ' \
        '--strategy=[only this one; --zero 3 is zero3. Default auto\: all, and a recommendation]:value:{compadd -- auto single mp ddp zero1 zero2 zero3 fsdp fsdp-grad-op hsdp; }' \
        '--shard-size=[GPUs over which state is sharded. Default all; hsdp\: a node, or half (1 to 1000000)]:value: ' \
        '--fsdp-version=[FullyShardedDataParallel or fully_shard. Default 2]:value:{compadd -- 1 2; }' \
        '--wrap=[FSDP units\: layers, or at least N parameters. Default layer (N\: 1 to 100000000000000)]:value:{compadd -- layer size:; }' \
        '--overlap-comm=[DeepSpeed reduces gradients beside compute. Default\: what the configuration of --framework says]:value:{compadd -- on off; }' \
        '--reduce-bucket-size=[elements that DeepSpeed reduces at once. Default\: as above (1 to 1000000000000)]:value: ' \
        '--zero-quantized-weights[ZeRO-3 gathers weights in 8 bit (ZeRO++)]' \
        '--no-reshard[FSDP keeps gathered weights from forward to backward]' \
        '--prefer=[what the recommendation minimises. Default speed]:value:{compadd -- speed cost memory; }' \
        '--network=[transfers that share links, or closed forms. Default flow]:value:{compadd -- flow analytic; }' \
        '--no-fold[simulate every rank, also those that behave alike]' \
        '--seed=[of the jitter. Default 0 (0 to 4294967295)]:value: ' \
        '--jitter=[relative deviation of every compute task, e.g. 0.02. Default 0 (0 to 1)]:value: ' \
        '--straggler=[ranks whose compute takes longer, e.g. 3=1.2 (RANK\: 0 to 131071; FACTOR\: 0.001 to 1000)]:value: ' \
        '--what-if=[change the machine\: nvlink, pcie, p2p, busbw, nic, gemm, memory, dispatch, overlap, host-link, cpu-adam, latency; or the plan\: checkpointing, loss, micro-batch, attention, optimizer, lora, qlora, full, seq-len, offload, packing, grad-accum, precision, compile, eval-generate, strategy, no-reshard, overlap-comm, zero-quantized-weights, num-gpus]:value: ' \
        '--compare=[simulate these strategies beside it, e.g. ddp,fsdp,zero3,mp]:value: ' \
        '--scaling=[simulate it on these numbers of GPUs, e.g. 1,2,4,8 (each\: 1 to 131072)]:value: ' \
        '--from=[begin of the chart, e.g. 20ms (0 s to 100 d)]:value: ' \
        '--to=[end of the chart (0 s to 100 d)]:value: ' \
        '--trace=[write the timeline for Perfetto (Chrome trace format)]:value:{_files}' \
        '--html=[write a report\: one page that works offline]:value:{_files}' \
        '--force[replace files that gpuplan did not write]' \
        '--json[the answer as JSON, in base units]'
      ;;
    run)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--model=[name (gpuplan models), Hugging Face config.json, model folder, or org/name of the Hub]:value:{compadd -- a.x-4.0-light afm-4.5b allam-7b apertus-70b apertus-8b baichuan2-13b baichuan2-7b bamba-9b bert-base bert-large bielik-11b-v3 bloom-176b bloom-1b1 bloom-1b7 bloom-3b bloom-560m bloom-7b1 bloomz-7b1 chatglm3-6b codellama-13b codellama-34b codellama-70b codellama-7b codeqwen1.5-7b danube3-500m deepseek-coder-1.3b deepseek-coder-6.7b deepseek-llm-67b deepseek-llm-7b deepseek-moe-16b deepseek-r1-distill-qwen-1.5b deepseek-v2 deepseek-v2-lite deepseek-v3 distilgpt2 dots.llm1 ernie-4.5-0.3b ernie-4.5-21b-a3b exaone4-1.2b exaone4-32b falcon-180b falcon-40b falcon-7b falcon-h1-0.5b falcon-h1-1.5b falcon-h1-1.5b-deep falcon-h1-3b falcon-h1-7b falcon-h1-7b-base falcon-mamba-7b falcon3-10b falcon3-1b falcon3-3b falcon3-7b flan-t5-base flan-t5-large flan-t5-small flan-t5-xl flan-t5-xxl foundation-sec-8b gemma-2-27b gemma-2-2b gemma-2-9b gemma-2b gemma-3-12b-multimodal gemma-3-12b-text gemma-3-1b gemma-3-270m gemma-3-27b-multimodal gemma-3-27b-text gemma-3-4b-multimodal gemma-3-4b-text gemma-3n-e2b gemma-3n-e4b gemma-4-26b-a4b gemma-4-31b gemma-4-e2b gemma-4-e4b gemma-7b glm-4-9b glm-4-9b-0414 glm-4-9b-hf glm-4.5 glm-4.5-air glm-4.7-flash glm-edge-4b gpt-j-6b gpt-neo-1.3b gpt-neo-125m gpt-neo-2.7b gpt-neox-20b gpt-oss-120b gpt-oss-20b gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-3.1-1b-a400m granite-3.1-3b-a800m granite-3.3-2b granite-3.3-8b granite-34b-code granite-3b-code granite-4.0-1b granite-4.0-350m granite-4.0-h-1b granite-4.0-h-350m granite-4.0-h-micro granite-4.0-h-small granite-4.0-h-tiny granite-4.0-micro granite-4.1-30b granite-4.1-3b granite-4.1-8b granite-8b-code hunyuan-7b hunyuan-a13b idefics3-8b internlm-7b internlm2-20b internlm2.5-7b internvl3-14b internvl3-1b internvl3-2b internvl3-8b internvl3.5-8b kimi-k2 lfm2-1.2b lfm2-2.6b lfm2-350m lfm2-700m lfm2-8b-a1b lfm2.5-8b-a1b llama-13b llama-160m llama-2-13b llama-2-70b llama-2-7b llama-3-70b llama-3-8b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-11b-vision llama-3.2-1b llama-3.2-3b llama-3.2-90b-vision llama-3.3-70b llama-30b llama-4-scout-text llama-65b llama-7b llama3-llava-next-8b llava-1.5-13b llava-1.5-7b llava-onevision-qwen2-0.5b llava-onevision-qwen2-72b llava-onevision-qwen2-7b llava-v1.6-34b llava-v1.6-mistral-7b llava-v1.6-vicuna-13b llava-v1.6-vicuna-7b llm-jp-3-150m llm-jp-4-8b mamba-1.4b mamba-130m mamba-2.8b mamba-370m mamba-790m mamba-codestral-7b minimax-m2 ministral-8b mistral-7b-v0.1 mistral-7b-v0.2 mistral-7b-v0.3 mistral-large-123b mistral-nemo-12b mistral-small-24b mistral-small-3.1-24b-text mixtral-8x22b mixtral-8x22b-instruct mixtral-8x7b mpt-125m mpt-13b mpt-1b mpt-30b mpt-350m mpt-3b mpt-70b mpt-760m mpt-7b mt0-xxl nanbeige4.1-3b nemo-minitron-8b nemotron-3-nano-30b-a3b nemotron-h-8b nemotron-mini-4b nemotron-nano-12b-v2 nemotron-nano-9b-v2 olmo-1b olmo2-13b olmo2-1b olmo2-32b olmo2-7b olmo3-32b olmo3-7b olmoe-1b-7b opt-1.3b opt-125m opt-13b opt-175b opt-2.7b opt-30b opt-350m opt-6.7b opt-66b paligemma-3b-224 paligemma-3b-448 paligemma-3b-896 paligemma2-10b-224 paligemma2-10b-448 paligemma2-10b-896 paligemma2-28b-224 paligemma2-28b-448 paligemma2-28b-896 paligemma2-3b-224 paligemma2-3b-448 paligemma2-3b-896 phi-1.5 phi-2 phi-3-medium phi-3-mini phi-3.5-mini phi-3.5-moe phi-4 phi-4-mini phi-mini-moe phi-tiny-moe powerlm-3b pythia-1.4b pythia-12b pythia-14m pythia-160m pythia-1b pythia-2.8b pythia-31m pythia-410m pythia-6.9b pythia-70m qwen-1.8b qwen-14b qwen-72b qwen-7b qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-32b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen1.5-moe-a2.7b qwen2-0.5b qwen2-1.5b qwen2-57b-a14b qwen2-72b qwen2-7b qwen2-vl-2b qwen2-vl-72b qwen2-vl-7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-14b qwen2.5-32b qwen2.5-3b qwen2.5-72b qwen2.5-7b qwen2.5-vl-32b qwen2.5-vl-3b qwen2.5-vl-7b qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3-vl-2b qwen3-vl-30b-a3b qwen3-vl-32b qwen3-vl-4b qwen3-vl-8b qwen3.5-0.8b qwen3.5-122b-a10b qwen3.5-27b qwen3.5-27b-text qwen3.5-2b qwen3.5-35b-a3b qwen3.5-35b-a3b-text qwen3.5-397b-a17b qwen3.5-4b qwen3.5-9b qwen3.5-9b-text salamandra-7b santacoder-1.1b seed-oss-36b smollm2-1.7b smollm2-135m smollm2-360m smollm3-3b smolvlm-2.2b smolvlm-256m smolvlm-500m smolvlm2-2.2b smolvlm2-256m smolvlm2-500m solar-10.7b stablelm-2-1.6b stablelm-3b-4e1t stablelm-base-alpha-3b starcoder-15.5b starcoder2-15b starcoder2-3b starcoder2-7b starcoderbase-1b stories15m t0-3b t5-11b t5-2.28b t5-3b t5-611m t5-base t5-large t5-small tiny-starcoder tinyllama-1.1b tulu-3-8b yi-1.5-9b yi-34b yi-6b; _files}' \
        '--offline[do not ask the Hugging Face Hub for a model; HF_HUB_OFFLINE does the same]' \
        '--full[train every weight (default)]' \
        '--lora=-[train adapters. SPEC\: r=8,alpha=16,dropout=0,targets=all-linear or q_proj+v_proj,dtype=fp32|bf16,base=bf16|fp32,save=lm_head+embed_tokens,dora,linear-experts. Default r=8, alpha=2r]::value: ' \
        '--qlora=-[adapters on a 4-bit base. SPEC as for --lora, and quant=nf4|gptq4,block=64,double=yes|no,storage=u8|bf16,experts]::value: ' \
        '--train-only=[of parameters or modules that alone are trained (or carry adapters), as in layers.24-31+lm_head or layers.*.mlp; * is any text. Default all]:value: ' \
        '--int8[hold the frozen base of --lora in 8 bit]' \
        '--framework=[whose conventions (dtypes, copies, buffers) and defaults apply; plain\: hf-trainer'\''s conventions alone, as without this flag]:value:{compadd -- axolotl deepspeed fms-hf-tuning hf-deepspeed hf-loop hf-trainer lightning litgpt llama-factory llm-c llm-foundry llmq megatron ms-swift native torch-fsdp1 torch torchtitan torchtune trl unsloth plain; }' \
        '--versions=[of the libraries under the framework\: transformers=4.57,peft=0.18, or installed\: those of the Python on PATH. Default the newest that gpuplan knows]:value: ' \
        '--micro-batch=[sequences per GPU and pass. Default 1 (1 to 1000000)]:value: ' \
        '--seq-len=[tokens per sequence. Default 2048 (1 to 67108864)]:value: ' \
        '--image-size=[pixels of the images of a vision-language model, before its processor resizes them. Default 512x512 (sides\: 1 to 65536)]:value: ' \
        '--images-per-row=[images of each sequence, whose tokens are part of it. Default 1 (1 to 4096)]:value: ' \
        '--train-vision=[what is trained beside the language model\: nothing, the projector, the vision tower too. Default no, or what the trainer of --framework does]:value:{compadd -- no projector all; }' \
        '--packing=[how rows fill sequences. Default packed]:value:{compadd -- packed padded dynamic; }' \
        '--grad-accum=[passes per optimizer step. Default 1 (1 to 100000)]:value: ' \
        '--rows=[rows of the data set. Default 10000 (1 to 10000000000)]:value: ' \
        '--tokens-per-row=[mean tokens of a row. Default\: the sequence length (1 to 67108864)]:value: ' \
        '--epochs=[times through the data. Default 1 (1e-06 to 1000000)]:value: ' \
        '--tokens=[tokens trained on, for example 100B\: sets the rows that hold them (1 to 20000000000000)]:value: ' \
        '--eval-batch=[sequences per GPU in evaluation. Default\: the micro batch (1 to 1000000)]:value: ' \
        '--eval-logits=[logits that evaluation leaves on the device\: none (loss alone), of the last batch, of all. Default none]:value:{compadd -- none last kept; }' \
        '--eval-generate=[tokens generated per sequence in evaluation. Default 0 (0 to 67108864)]:value: ' \
        '--precision=[of weights and computation. Default bf16-mixed]:value:{compadd -- bf16-true bf16-mixed fp16-mixed fp32; }' \
        '--optimizer=[adamw-fused, adamw-8bit, paged-adamw, adafactor, lion, sgd, muon, ... Default\: what the framework uses]:value:{compadd -- adamw-fused adamw-foreach adamw-loop adamw-apex adamw-8bit paged-adamw paged-adamw-8bit adamw-bf16-states adamw-bf16-kahan adafactor lion lion-8bit sgd sgd-momentum muon; }' \
        '--optimizer-in-backward[step each weight as soon as its gradient is there]' \
        '--checkpointing=[activations recomputed in backward. Default none (K\: 1 to 100000)]:value:{compadd -- none full selective elementwise every=; }' \
        '--attention=[attention kernel. Default sdpa]:value:{compadd -- eager sdpa flash flash-3 cudnn; }' \
        '--kernels=[norm and MLP kernels. Default\: what the framework uses]:value:{compadd -- plain fused; }' \
        '--compile[layers and loss through torch.compile\: fused ops, fewer launches]' \
        '--fp8[layers multiply in fp8 (Ada, Hopper and later); states and activations as without]' \
        '--qat=[fake quantisers of torchao around the linears\: of weights, or of inputs and weights. Default none]:value:{compadd -- none int4 int8-int4 fp8 nvfp4 mxfp4; }' \
        '--loss=[cross-entropy. Default plain (N\: 1 to 65536)]:value:{compadd -- plain inplace chunked fused; }' \
        '--offload=[of optimizer, params, activations; to the host, or optimizer\:nvme, params\:nvme. Default none]:value: ' \
        '--gpus=[4xA6000, 2x4090,2x3090, local (these GPUs, as free as they are), 2xcpu]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--gpu-spec=[a card of --gpus as you describe it\: '\''3060\:12GiB,360GB/s,25TFLOPS'\'' is memory, bandwidth, dense 16-bit rate; then link=pcie4x16, cc=8.6, fp8=, fp32=, sms=, p2p=yes. Several\: '\'';'\'' between]:value: ' \
        '--cluster=[a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL'\''s topology dump]:value:{compadd -- 4xRTX6000Ada-hoststaged aws-g4dn.12xlarge aws-g5.12xlarge aws-g5.48xlarge aws-g6.48xlarge aws-g6e.12xlarge aws-g6e.48xlarge aws-p3.16xlarge aws-p3dn.24xlarge aws-p4d.24xlarge aws-p4de.24xlarge aws-p5.48xlarge aws-p5en.48xlarge aws-p6-b200.48xlarge azure-nc96ads-a100-v4 azure-nd96amsr-a100-v4 azure-nd96asr-v4 azure-nd96isr-h100-v5 azure-nd96isr-mi300x-v5 dgx-1v dgx-2 dgx-a100-40gb dgx-a100-80gb dgx-b200 dgx-h100 dgx-h200 gb200-nvl72 gcp-a2-highgpu-8g gcp-a2-ultragpu-8g gcp-a3-highgpu-8g gcp-a3-megagpu-8g gcp-a3-ultragpu-8g hgx-a800 hgx-h800 hgx-mi300x hgx-mi325x lambda-2x-h100-sxm lambda-4x-a6000 lambda-8x-a100-80gb lambda-8x-v100 srv-8x-4090 srv-8x-5090 srv-8x-a100-pcie srv-8x-l40s srv-8x-rtx-pro-6000-switch ws-2x-3090-nvlink ws-2x-4090 ws-2x-5090 ws-2x-a6000-nvlink ws-4x-3090 ws-4x-4090 ws-4x-6000-ada ws-4x-a6000-nvlink; _files}' \
        '--gpu=[which GPU it is, where the file of --cluster does not say]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--num-gpus=[GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster (1 to 131072)]:value: ' \
        '--profile=[id (gpuplan profiles) or file of a calibration, or '\''default'\''. Default\: the newest of such GPUs, else the shipped one]:value:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '--price-per-gpu-hour=[US dollars. Default\: of one vendor of the catalogue (gpuplan gpus) (0 to 1000000)]:value: ' \
        '--strategy=[only this one; --zero 3 is zero3. Default auto\: all, and a recommendation]:value:{compadd -- auto single mp ddp zero1 zero2 zero3 fsdp fsdp-grad-op hsdp; }' \
        '--shard-size=[GPUs over which state is sharded. Default all; hsdp\: a node, or half (1 to 1000000)]:value: ' \
        '--fsdp-version=[FullyShardedDataParallel or fully_shard. Default 2]:value:{compadd -- 1 2; }' \
        '--wrap=[FSDP units\: layers, or at least N parameters. Default layer (N\: 1 to 100000000000000)]:value:{compadd -- layer size:; }' \
        '--overlap-comm=[DeepSpeed reduces gradients beside compute. Default\: what the configuration of --framework says]:value:{compadd -- on off; }' \
        '--reduce-bucket-size=[elements that DeepSpeed reduces at once. Default\: as above (1 to 1000000000000)]:value: ' \
        '--zero-quantized-weights[ZeRO-3 gathers weights in 8 bit (ZeRO++)]' \
        '--no-reshard[FSDP keeps gathered weights from forward to backward]' \
        '--prefer=[what the recommendation minimises. Default speed]:value:{compadd -- speed cost memory; }' \
        '--demo[fine-tune the small model that comes with gpuplan, on its documents]' \
        '--data=[tokens (.bin, .npy), JSON lines with input_ids or text. Default\: random tokens, to measure]:value:{_files}' \
        '--token-dtype=[of a .bin without header. Default by the vocabulary]:value:{compadd -- uint16 uint32; }' \
        '--init=[random weights instead of the model'\''s files]:value: ' \
        '--adapter=[go on from this PEFT adapter]:value: ' \
        '--max-steps=[optimizer steps. Default\: --epochs of the data, 10 without data (1 to 1000000000)]:value: ' \
        '--lr=[highest learning rate. Default 2e-4 for adapters, 2e-5 for full (0 to 1e+18)]:value: ' \
        '--schedule=[after the warm-up. Default linear]:value:{compadd -- constant linear cosine; }' \
        '--warmup=[steps. Default 0 (0 to 1000000000)]:value: ' \
        '--weight-decay=[AdamW'\''s; never of norms and biases. Default 0 (0 to 100)]:value: ' \
        '--clip=[largest global gradient norm, 0\: none. Default 1 (0 to 1000000)]:value: ' \
        '--seed=[of order and random weights. Default 0 (0 to 4294967295)]:value: ' \
        '--no-shuffle[blocks in the order of the file]' \
        '--output=[write adapter or model, and checkpoints, here]:value: ' \
        '--save-every=[checkpoint every K steps. Default\: none but at Ctrl-C (1 to 1000000000)]:value: ' \
        '--keep=[checkpoints that stay. Default\: all (1 to 1000000)]:value: ' \
        '--resume[go on from the latest checkpoint of --output]' \
        '--allow-changed=[go on with another lr, schedule, warmup, weight-decay, clip or max-steps than the checkpoint'\''s]:value: ' \
        '--all-bytes[compare every byte of weights and data on --resume, not a sample of files beyond 16 MiB]' \
        '--metrics=[one JSON line per step]:value:{_files}' \
        '--trace=[write the last step'\''s real timeline for Perfetto]:value:{_files}' \
        '--no-cuda-graphs[launch kernels of GPUs one by one, not a step'\''s as one graph]' \
        '--json[the report as JSON, in base units]' \
        '--engine=[who trains. Default native, gpuplan'\''s own executor. Behind -- stands a script of your own with its arguments; without it a shipped one trains]:value:{compadd -- accelerate torchrun deepspeed slurm native; }' \
        '--dry-run[print the checks, the files and the commands, and start nothing]' \
        '--job=[where the engine'\''s files and metrics go, a folder that all machines see. Default gpuplan-job]:value: ' \
        '--hosts=[the machines of the plan, a host a line; others than this one are reached by ssh]:value:{_files}' \
        '--port=[of rank 0. Default 29500, or a free one (1 to 65535)]:value: ' \
        '--force[replace what gpuplan did not write\: a model in --output, --trace, files in --job]'
      ;;
    calibrate)
      _arguments \
        '--help[show this help]' \
        '--device=[what to measure. Default auto\: the GPUs of this machine, else its CPU]:value:{compadd -- auto cuda cpu; }' \
        '--quick[about 30 seconds instead of minutes; wider intervals]' \
        '--only=[of gemm, attention, memory, dispatch, copy, overhead, nccl, overlap. Default all]:value: ' \
        '--ranks=[measure up to N ranks at once. Default\: all GPUs; on a CPU one per core, at most 4 (1 to 1024)]:value: ' \
        '--output=[write the profile here. Default\: a file of its own in the profile folder]:value:{_files}' \
        '--force[replace files that gpuplan did not write]' \
        '--fresh[forget what an interrupted calibration has measured]' \
        '--json[the profile as JSON, in base units]'
      ;;
    profiles)
      _arguments \
        '--help[show this help]' \
        '::argument:{compadd -- list show compare export; }' \
        '::argument:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '::argument:{compadd -- default-ampere default-hopper default-consumer-pcie default-workstation default-turing default-volta default-amd default-cpu; _files}' \
        '--plots[show\: draw a chart of every fit]' \
        '--format=[export\: the file itself, everything as JSON, the samples, a page of charts. Default\: as the name of --output ends, else yaml]:value:{compadd -- yaml json csv svg; }' \
        '--output=[export\: write here instead of to standard output]:value:{_files}' \
        '--force[replace files that gpuplan did not write]' \
        '--json[list, show and compare\: the answer as JSON, in base units]'
      ;;
    validate)
      _arguments \
        '--help[show this help]' \
        '::argument:{_files}' \
        '--by=[one row per source, method or strategy]:value:{compadd -- source method strategy; }' \
        '--network=[time speed points with the simulator, on such links. Default\: one forward pass]:value:{compadd -- flow analytic; }' \
        '--worst=[list the N points that are furthest off. Default 5 (0 to 1000000)]:value: ' \
        '--picks[where one source compared settings\: is the one that we would pick its best?]' \
        '--report=[write all of it as a Markdown page (docs/accuracy.md)]:value:{_files}' \
        '--force[replace files that gpuplan did not write]' \
        '--save-ranges=[write the ranges that estimates show (data/validation/accuracy.json)]:value:{_files}' \
        '--json[every point and the summary as JSON; memory in GiB, speed in the point'\''s own unit]'
      ;;
    topology)
      _arguments \
        '--help[show this help]' \
        '--cluster=[a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL'\''s topology dump]:value:{compadd -- 4xRTX6000Ada-hoststaged aws-g4dn.12xlarge aws-g5.12xlarge aws-g5.48xlarge aws-g6.48xlarge aws-g6e.12xlarge aws-g6e.48xlarge aws-p3.16xlarge aws-p3dn.24xlarge aws-p4d.24xlarge aws-p4de.24xlarge aws-p5.48xlarge aws-p5en.48xlarge aws-p6-b200.48xlarge azure-nc96ads-a100-v4 azure-nd96amsr-a100-v4 azure-nd96asr-v4 azure-nd96isr-h100-v5 azure-nd96isr-mi300x-v5 dgx-1v dgx-2 dgx-a100-40gb dgx-a100-80gb dgx-b200 dgx-h100 dgx-h200 gb200-nvl72 gcp-a2-highgpu-8g gcp-a2-ultragpu-8g gcp-a3-highgpu-8g gcp-a3-megagpu-8g gcp-a3-ultragpu-8g hgx-a800 hgx-h800 hgx-mi300x hgx-mi325x lambda-2x-h100-sxm lambda-4x-a6000 lambda-8x-a100-80gb lambda-8x-v100 srv-8x-4090 srv-8x-5090 srv-8x-a100-pcie srv-8x-l40s srv-8x-rtx-pro-6000-switch ws-2x-3090-nvlink ws-2x-4090 ws-2x-5090 ws-2x-a6000-nvlink ws-4x-3090 ws-4x-4090 ws-4x-6000-ada ws-4x-a6000-nvlink; _files}' \
        '--gpus=[4xA6000, 2x4090,2x3090\: the machines that these usually stand in]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--gpu-spec=[a card of --gpus as you describe it\: '\''3060\:12GiB,360GB/s,25TFLOPS'\'']:value: ' \
        '--num-gpus=[GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster (1 to 131072)]:value: ' \
        '--gpu=[which GPU it is, where the file of --cluster does not say]:value:{compadd -- a10 a100-pcie-40gb a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb a10g a16 a2 a30 a40 a800-pcie-80gb a800-sxm-80gb b200-sxm b300-sxm gb10 gb200 gb300 gh200-144gb gh200-96gb h100-nvl h100-pcie h100-sxm h100-sxm-96gb h20-141gb h20-96gb h200-nvl h200-sxm h800-pcie h800-sxm l20 l4 l40 l40s mi210 mi250x mi300x mi325x mi355x p100-pcie-16gb p40 quadro-rtx-8000 rtx-2000-ada rtx-2080-ti rtx-2080-ti-22gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb rtx-3080-12gb rtx-3080-20gb rtx-3080-laptop-16gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4000-ada rtx-4060 rtx-4060-ti-16gb rtx-4060-ti-8gb rtx-4070 rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-laptop rtx-4080-super rtx-4090 rtx-4090-48gb rtx-4090-d rtx-4090-d-48gb rtx-4090-laptop rtx-4500-ada rtx-5000-ada rtx-5060 rtx-5060-ti-16gb rtx-5060-ti-8gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5080-laptop rtx-5090 rtx-5090-d rtx-5090-laptop rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000-blackwell t4 titan-rtx v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb; }' \
        '--from=[show the way from this GPU (a rank, from 0) … (0 to 131071)]:value: ' \
        '--to=[… to this one, link by link, and what limits it (0 to 131071)]:value: ' \
        '--svg=[write a picture]:value:{_files}' \
        '--force[replace files that gpuplan did not write]' \
        '--json[the graph as JSON, in base units]'
      ;;
    models)
      _arguments \
        '--help[show this help]' \
        '::argument: ' \
        '--show=[explain one\: a name, Hugging Face config.json, or model folder]:value:{compadd -- a.x-4.0-light afm-4.5b allam-7b apertus-70b apertus-8b baichuan2-13b baichuan2-7b bamba-9b bert-base bert-large bielik-11b-v3 bloom-176b bloom-1b1 bloom-1b7 bloom-3b bloom-560m bloom-7b1 bloomz-7b1 chatglm3-6b codellama-13b codellama-34b codellama-70b codellama-7b codeqwen1.5-7b danube3-500m deepseek-coder-1.3b deepseek-coder-6.7b deepseek-llm-67b deepseek-llm-7b deepseek-moe-16b deepseek-r1-distill-qwen-1.5b deepseek-v2 deepseek-v2-lite deepseek-v3 distilgpt2 dots.llm1 ernie-4.5-0.3b ernie-4.5-21b-a3b exaone4-1.2b exaone4-32b falcon-180b falcon-40b falcon-7b falcon-h1-0.5b falcon-h1-1.5b falcon-h1-1.5b-deep falcon-h1-3b falcon-h1-7b falcon-h1-7b-base falcon-mamba-7b falcon3-10b falcon3-1b falcon3-3b falcon3-7b flan-t5-base flan-t5-large flan-t5-small flan-t5-xl flan-t5-xxl foundation-sec-8b gemma-2-27b gemma-2-2b gemma-2-9b gemma-2b gemma-3-12b-multimodal gemma-3-12b-text gemma-3-1b gemma-3-270m gemma-3-27b-multimodal gemma-3-27b-text gemma-3-4b-multimodal gemma-3-4b-text gemma-3n-e2b gemma-3n-e4b gemma-4-26b-a4b gemma-4-31b gemma-4-e2b gemma-4-e4b gemma-7b glm-4-9b glm-4-9b-0414 glm-4-9b-hf glm-4.5 glm-4.5-air glm-4.7-flash glm-edge-4b gpt-j-6b gpt-neo-1.3b gpt-neo-125m gpt-neo-2.7b gpt-neox-20b gpt-oss-120b gpt-oss-20b gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-3.1-1b-a400m granite-3.1-3b-a800m granite-3.3-2b granite-3.3-8b granite-34b-code granite-3b-code granite-4.0-1b granite-4.0-350m granite-4.0-h-1b granite-4.0-h-350m granite-4.0-h-micro granite-4.0-h-small granite-4.0-h-tiny granite-4.0-micro granite-4.1-30b granite-4.1-3b granite-4.1-8b granite-8b-code hunyuan-7b hunyuan-a13b idefics3-8b internlm-7b internlm2-20b internlm2.5-7b internvl3-14b internvl3-1b internvl3-2b internvl3-8b internvl3.5-8b kimi-k2 lfm2-1.2b lfm2-2.6b lfm2-350m lfm2-700m lfm2-8b-a1b lfm2.5-8b-a1b llama-13b llama-160m llama-2-13b llama-2-70b llama-2-7b llama-3-70b llama-3-8b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-11b-vision llama-3.2-1b llama-3.2-3b llama-3.2-90b-vision llama-3.3-70b llama-30b llama-4-scout-text llama-65b llama-7b llama3-llava-next-8b llava-1.5-13b llava-1.5-7b llava-onevision-qwen2-0.5b llava-onevision-qwen2-72b llava-onevision-qwen2-7b llava-v1.6-34b llava-v1.6-mistral-7b llava-v1.6-vicuna-13b llava-v1.6-vicuna-7b llm-jp-3-150m llm-jp-4-8b mamba-1.4b mamba-130m mamba-2.8b mamba-370m mamba-790m mamba-codestral-7b minimax-m2 ministral-8b mistral-7b-v0.1 mistral-7b-v0.2 mistral-7b-v0.3 mistral-large-123b mistral-nemo-12b mistral-small-24b mistral-small-3.1-24b-text mixtral-8x22b mixtral-8x22b-instruct mixtral-8x7b mpt-125m mpt-13b mpt-1b mpt-30b mpt-350m mpt-3b mpt-70b mpt-760m mpt-7b mt0-xxl nanbeige4.1-3b nemo-minitron-8b nemotron-3-nano-30b-a3b nemotron-h-8b nemotron-mini-4b nemotron-nano-12b-v2 nemotron-nano-9b-v2 olmo-1b olmo2-13b olmo2-1b olmo2-32b olmo2-7b olmo3-32b olmo3-7b olmoe-1b-7b opt-1.3b opt-125m opt-13b opt-175b opt-2.7b opt-30b opt-350m opt-6.7b opt-66b paligemma-3b-224 paligemma-3b-448 paligemma-3b-896 paligemma2-10b-224 paligemma2-10b-448 paligemma2-10b-896 paligemma2-28b-224 paligemma2-28b-448 paligemma2-28b-896 paligemma2-3b-224 paligemma2-3b-448 paligemma2-3b-896 phi-1.5 phi-2 phi-3-medium phi-3-mini phi-3.5-mini phi-3.5-moe phi-4 phi-4-mini phi-mini-moe phi-tiny-moe powerlm-3b pythia-1.4b pythia-12b pythia-14m pythia-160m pythia-1b pythia-2.8b pythia-31m pythia-410m pythia-6.9b pythia-70m qwen-1.8b qwen-14b qwen-72b qwen-7b qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-32b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen1.5-moe-a2.7b qwen2-0.5b qwen2-1.5b qwen2-57b-a14b qwen2-72b qwen2-7b qwen2-vl-2b qwen2-vl-72b qwen2-vl-7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-14b qwen2.5-32b qwen2.5-3b qwen2.5-72b qwen2.5-7b qwen2.5-vl-32b qwen2.5-vl-3b qwen2.5-vl-7b qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3-vl-2b qwen3-vl-30b-a3b qwen3-vl-32b qwen3-vl-4b qwen3-vl-8b qwen3.5-0.8b qwen3.5-122b-a10b qwen3.5-27b qwen3.5-27b-text qwen3.5-2b qwen3.5-35b-a3b qwen3.5-35b-a3b-text qwen3.5-397b-a17b qwen3.5-4b qwen3.5-9b qwen3.5-9b-text salamandra-7b santacoder-1.1b seed-oss-36b smollm2-1.7b smollm2-135m smollm2-360m smollm3-3b smolvlm-2.2b smolvlm-256m smolvlm-500m smolvlm2-2.2b smolvlm2-256m smolvlm2-500m solar-10.7b stablelm-2-1.6b stablelm-3b-4e1t stablelm-base-alpha-3b starcoder-15.5b starcoder2-15b starcoder2-3b starcoder2-7b starcoderbase-1b stories15m t0-3b t5-11b t5-2.28b t5-3b t5-611m t5-base t5-large t5-small tiny-starcoder tinyllama-1.1b tulu-3-8b yi-1.5-9b yi-34b yi-6b; _files}' \
        '--refresh=[get a model'\''s config.json from the Hugging Face Hub anew, keep it, and explain it]:value: ' \
        '--offline[do not ask the Hub; HF_HUB_OFFLINE does the same]' \
        '--json[the answer as JSON]'
      ;;
    gpus)
      _arguments \
        '--help[show this help]' \
        '::argument: ' \
        '--json[the answer as JSON, in base units]'
      ;;
    completion)
      _arguments \
        '--help[show this help]' \
        '::argument:{compadd -- bash zsh fish man; }'
      ;;
  esac
}
if [[ $funcstack[1] == _gpuplan ]]; then _gpuplan "$@"; else compdef _gpuplan gpuplan; fi
