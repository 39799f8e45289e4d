// Vision-language models: how an image becomes tokens, what is listed, what is trained.
#include "models/vision_spec.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/hf_config.h"
#include "models/trained_model.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

VisionSpec vision_of(const char* model) { return load_model(model).spec.vision; }

TrainedModel trained(const char* model, TrainVision train, Method method = Method::Full) {
  Recipe recipe;
  recipe.method = method;
  recipe.images = {.width = 1024, .height = 1024, .per_row = 2, .train = train};
  return prepare(load_model(model).spec, recipe, find_framework("hf-trainer"));
}

}  // namespace

TEST_CASE("a grid of patches has the size that smart_resize gives, within the bounds of its area") {
  struct Case {
    std::int64_t width, height, resized_width, resized_height, tokens;
  };
  const VisionSpec v = vision_of("qwen2.5-vl-7b");               // merged patches of 28 pixels
  for (const Case& c : {Case{1024, 1024, 1036, 1036, 1369},      // 36.57 -> 37 each way
                        Case{512, 512, 504, 504, 324},           // 18.29 -> 18
                        Case{640, 480, 644, 476, 391},           // 22.86 -> 23, 17.14 -> 17
                        Case{10, 10, 56, 56, 4},                 // 784 pixels are too few: 10 x 5.6 = 56
                        Case{9000, 8000, 3780, 3360, 16200}}) {  // of 12,845,056 pixels: 135.76 -> 135, 120.68 -> 120
    CAPTURE(c.width);
    const ImageGrid grid = image_grid(v, c.width, c.height);
    CHECK(grid.width == c.resized_width);
    CHECK(grid.height == c.resized_height);
    CHECK(grid.tokens == c.tokens);
    CHECK(grid.positions() == 4 * c.tokens);
  }
  CHECK(image_grid(vision_of("qwen3-vl-8b"), 1024, 1024).tokens == 1024);  // merged patches of 32 pixels
}

TEST_CASE("a square tower makes as many tokens of any image") {
  for (const std::int64_t side : {100, 896, 5000}) {
    CHECK(image_grid(vision_of("llava-1.5-7b"), side, side).tokens == 576);       // 24 x 24
    CHECK(image_grid(vision_of("llava-1.5-7b"), side, side).positions() == 577);  // and the class token
    CHECK(image_grid(vision_of("gemma-3-4b-multimodal"), side, 2 * side).tokens == 256);
    CHECK(image_grid(vision_of("gemma-3-4b-multimodal"), side, side).positions() == 4096);  // 64 x 64
  }
}

TEST_CASE("tiles have the nearest arrangement, and a thumbnail beside several") {
  struct Case {
    std::int64_t width, height, tiles;
  };
  for (const Case& c : {Case{448, 448, 1}, Case{512, 512, 1}, Case{896, 448, 3},  // 2 x 1
                        Case{1024, 1024, 10},  // 3 x 3: the image has more than half of their area
                        Case{4000, 1000, 5}})  // 4 x 1
    CHECK_MESSAGE(image_grid(vision_of("internvl3-1b"), c.width, c.height).tiles == c.tiles,
                  fmt::format("{} x {}", c.width, c.height));
  CHECK(image_grid(vision_of("internvl3-1b"), 448, 448).tokens == 256);
  CHECK(image_grid(vision_of("internvl3-1b"), 1024, 1024).tokens == 10 * 256);
}

TEST_CASE(
    "LLaVA-NeXT and OneVision: the thumbnail, the patches without padding, and an end behind each of their rows") {
  struct Case {
    const char* model;
    std::int64_t width, height, tiles, tokens;
  };
  // Published: 2,928 tokens of an image of 672 x 672 (48 x 48 + 48 + 576). 1000 x 500 is padded to 672 x 336: 48 x 24
  // + 24 + 576. 1000 x 400 is padded to 1008 x 336, of whose 72 columns int(1000 * 24 / 400) = 60 stay: 24 x 60 + 24
  // + 576
  for (const Case& c :
       {Case{"llava-v1.6-mistral-7b", 672, 672, 5, 2928}, Case{"llava-v1.6-mistral-7b", 1000, 500, 3, 1752},
        Case{"llava-v1.6-mistral-7b", 1000, 400, 4, 2040},
        // 27 patches a side. 384 x 384: 27 x 27 + 27 + 729. 1152 x 1152, nine squares: 81 x 81 + 81 + 729.
        // 2304 x 2304: 162 x 162 is twice nine squares a side, so interpolated to 81 x 81
        Case{"llava-onevision-qwen2-7b", 384, 384, 2, 1485}, Case{"llava-onevision-qwen2-7b", 1152, 1152, 10, 7371},
        Case{"llava-onevision-qwen2-7b", 2304, 2304, 37, 7371}}) {
    CAPTURE(std::string(c.model));
    CAPTURE(c.width);
    const ImageGrid grid = image_grid(vision_of(c.model), c.width, c.height);
    CHECK(grid.tiles == c.tiles);
    CHECK(grid.tokens == c.tokens);
    CHECK(grid.features == c.tiles * (std::string(c.model).starts_with("llava-v") ? 576 : 729));
  }
}

TEST_CASE("SmolVLM and Idefics3: squares of an image whose longer side is four of them, and the whole") {
  struct Case {
    const char* model;
    std::int64_t width, height, tiles, tokens_per_tile;
  };
  for (const Case& c :
       {Case{"smolvlm-256m", 512, 512, 17, 64},   // 4 x 4 and the whole; 32 x 32 patches, 4 x 4 of them
        Case{"smolvlm-256m", 2000, 1000, 9, 64},  // 2048 x 1024: 4 x 2
        Case{"smolvlm-256m", 1000, 1100, 17, 64}, Case{"smolvlm2-2.2b", 640, 480, 13, 81},  // 1536 x 1152: 4 x 3
        Case{"idefics3-8b", 1000, 1000, 17, 169}}) {
    CAPTURE(std::string(c.model));
    const ImageGrid grid = image_grid(vision_of(c.model), c.width, c.height);
    CHECK(grid.tiles == c.tiles);
    CHECK(grid.tokens == c.tiles * c.tokens_per_tile);
  }
}

TEST_CASE("LFM2-VL keeps an image of up to twice 256 tokens whole, and cuts a larger one into two to ten squares") {
  struct Case {
    std::int64_t width, height, tiles, tokens;
  };
  for (const Case& c : {Case{512, 512, 1, 256},       // 16 x 16 of 32 pixels
                        Case{640, 480, 1, 234},       // 20 x 15 are resized to 18 x 13
                        Case{1024, 1024, 5, 1280},    // 2 x 2 and the whole
                        Case{1200, 600, 3, 768},      // 2 x 1 and the whole
                        Case{1600, 800, 9, 2304}}) {  // 4 x 2: more than half of their area
    CAPTURE(c.width);
    const ImageGrid grid = image_grid(vision_of("lfm2-vl-450m"), c.width, c.height);
    CHECK(grid.tiles == c.tiles);
    CHECK(grid.tokens == c.tokens);
  }
}

TEST_CASE("DeepSeek-VL2 pads 27 patches a side to 28, and merges 2 x 2 of them") {
  CHECK(image_grid(vision_of("deepseek-vl2-tiny"), 384, 384).tokens == 14 * 14);
  CHECK(image_grid(vision_of("deepseek-vl2-tiny"), 768, 384).tokens == 3 * 14 * 14);
}

TEST_CASE("PaliGemma makes a token of a patch, Gemma 4 of 3 x 3 within a budget of 280") {
  CHECK(image_grid(vision_of("paligemma-3b-224"), 1000, 500).tokens == 256);
  CHECK(image_grid(vision_of("paligemma2-3b-448"), 1000, 500).tokens == 1024);
  const VisionSpec v = vision_of("gemma-4-31b");
  // sqrt(280 * 2304 / (1024 * 1024)) = 0.7844: 803 -> 16 x 48 pixels each way; the tower's sequence is always 2,520
  // long
  CHECK(image_grid(v, 1024, 1024).tokens == 256);
  CHECK(image_grid(v, 1024, 1024).positions() == 2520);
  // 1000 x 500: 1135 x 567 -> 23 x 11
  CHECK(image_grid(v, 1000, 500).tokens == 253);
}

TEST_CASE("images of Llama 3.2 Vision are four tiles, and no tokens of the sequence") {
  const ImageGrid grid = image_grid(vision_of("llama-3.2-11b-vision"), 100, 900);
  CHECK(grid.tokens == 0);
  CHECK(grid.features == 4 * 1601);            // 40 x 40 patches and the class token
  CHECK(grid.positions_per_tile == 4 * 1608);  // each padded to a multiple of 8, all together
  const ModelWeights weights = list_weights(load_model("llama-3.2-11b-vision").spec);
  CHECK(weights.num_layers() == 32 + 8 + 1 + 40);
  CHECK(weights.num_of_kind(1) == 8);  // the gated blocks
  CHECK(attends_to_images(weights.layer(41 + 3).mixer));
  CHECK_FALSE(attends_to_images(weights.layer(41 + 4).mixer));
}

TEST_CASE("the tower of Qwen2.5-VL-7B has 676,550,144 parameters, 44,574,464 of them in the merger") {
  // Published: "visual 676550144" of a public script that prints it. Merger: ln_q 1,280, mlp.0 5120 x 5120 + 5120,
  // mlp.2 5120 x 3584 + 3584.
  const ModelWeights weights = list_weights(load_model("qwen2.5-vl-7b").spec);
  CHECK(weights.part_elements(ModelPart::Projector) == 44'574'464);
  CHECK(weights.part_elements(ModelPart::Projector) + weights.part_elements(ModelPart::Tower) == 676'550'144);
}

TEST_CASE("omni models are their thinker; what hears and speaks beside it is loaded and never trained") {
  // Published sizes: 10,732,225,440 and 35,259,818,545 parameters; the thinkers alone 4,703,464,448 and 31,719,205,488.
  for (const char* model :
       {"qwen2.5-omni-7b", "qwen2.5-omni-3b", "qwen3-omni-30b-a3b", "qwen3-omni-30b-a3b-thinking", "deepseek-ocr"}) {
    CAPTURE(std::string(model));
    const ModelSpec spec = load_model(model).spec;
    const ModelWeights weights = list_weights(spec);
    CHECK(weights.total_elements() == *spec.recorded_parameters);
    CHECK(weights.part_elements(ModelPart::Idle) == spec.idle_parameters);
    CHECK(spec.idle_parameters > 0);
    CHECK(trained(model, TrainVision::All).trainable == *spec.recorded_parameters - spec.idle_parameters);
  }
}

TEST_CASE("the thinker of Qwen2.5-Omni-7B has Qwen2.5-VL's layers, and an attention of three linears in its tower") {
  const ModelWeights omni = list_weights(load_model("qwen2.5-omni-7b").spec),
                     vl = list_weights(load_model("qwen2.5-vl-7b").spec);
  CHECK(omni.part_elements(ModelPart::Tower) == vl.part_elements(ModelPart::Tower));
  CHECK(omni.part_elements(ModelPart::Projector) == vl.part_elements(ModelPart::Projector));
  CHECK(omni.part_elements(ModelPart::Language) == vl.part_elements(ModelPart::Language));
  CHECK(omni.layer(0).prefix == "thinker.visual.blocks.{}.");
}

TEST_CASE("a tower trained whole beside adapters holds its parameters as they are loaded, and no adapter") {
  const TrainedModel language = trained("qwen2.5-vl-7b", TrainVision::No, Method::Lora);
  const TrainedModel whole = trained("qwen2.5-vl-7b", TrainVision::Whole, Method::Lora);
  CHECK(whole.trainable - language.trainable == 676'550'144);
  CHECK(whole.first_backward == 0);
}

TEST_CASE("what --train-vision leaves out is frozen and runs forward only") {
  const std::int64_t all = *load_model("qwen2.5-vl-7b").spec.recorded_parameters;
  const TrainedModel frozen = trained("qwen2.5-vl-7b", TrainVision::No);
  CHECK(frozen.trainable == all - 676'550'144);  // 7,615,616,512, as the same script prints
  CHECK(frozen.first_backward == 33);            // unit 0, 32 blocks, then the projector, whose embedding is trained
  const TrainedModel projector = trained("qwen2.5-vl-7b", TrainVision::Projector);
  CHECK(projector.trainable == all - 676'550'144 + 44'574'464);
  CHECK(trained("qwen2.5-vl-7b", TrainVision::All).trainable == all);
  CHECK(trained("qwen2.5-vl-7b", TrainVision::All).first_backward == 0);
}

TEST_CASE("all-linear adapters reach the tower only when it is trained") {
  const TrainedModel language = trained("qwen2.5-vl-7b", TrainVision::No, Method::Lora);
  CHECK(language.first_backward == 34);  // the first layer of the language model
  // r (in + out) of rank 8: q, o 3584 + 3584; k, v 3584 + 512; gate, up, down 3584 + 18944; 28 layers
  CHECK(language.trainable == 28 * 8 * (2 * 7168 + 2 * 4096 + 3 * 22528));
  // 32 blocks: qkv 1280 + 3840, proj 1280 + 1280, three of 1280 + 3420; merger 5120 + 5120, 5120 + 3584
  CHECK(trained("qwen2.5-vl-7b", TrainVision::All, Method::Lora).trainable - language.trainable ==
        8 * (32 * (5120 + 2560 + 3 * 4700) + 10240 + 8704));
}

TEST_CASE("layers stand in the order tower, projector, language model, under the numbers of the checkpoint") {
  const ModelWeights weights = list_weights(load_model("qwen3-vl-4b").spec);
  REQUIRE(weights.num_layers() == 24 + 1 + 36);
  CHECK(weights.layer(0).part == ModelPart::Tower);
  CHECK(weights.layer(5).makes_deepstack);
  CHECK_FALSE(weights.layer(6).makes_deepstack);
  CHECK(weights.layer(24).part == ModelPart::Projector);
  CHECK(weights.layer(27).reads_deepstack);
  CHECK_FALSE(weights.layer(28).reads_deepstack);
  CHECK(weights.layer(28).offset == 25);
  CHECK(weights.layer(28).prefix == "model.language_model.layers.{}.");
  const ModelWeights windows = list_weights(load_model("qwen2.5-vl-3b").spec);
  CHECK(windows.layer(0).is_windowed);
  CHECK_FALSE(windows.layer(7).is_windowed);
}

TEST_CASE("a config of the Hub with its keys at the top, nested, or left to the class is read alike") {
  const json vision{{"depth", 2}, {"hidden_size", 64}, {"num_heads", 4}, {"intermediate_size", 128}};
  const json text{{"hidden_size", 64}, {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                  {"vocab_size", 100}, {"num_key_value_heads", 2}, {"intermediate_size", 96}};
  json flat{{"model_type", "qwen2_5_vl"},
            {"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
            {"vision_config", vision}};
  json nested = flat;
  flat.update(text);
  nested["text_config"] = text;
  CHECK(parse_hf_config(flat, "config.json") == parse_hf_config(nested, "config.json"));
  // llava-hf/llava-1.5-7b-hf states little of its text_config
  const json llava{{"model_type", "llava"},
                   {"architectures", {"LlavaForConditionalGeneration"}},
                   {"text_config", {{"model_type", "llama"}, {"max_position_embeddings", 4096}, {"vocab_size", 32064}}},
                   {"vision_config",
                    {{"hidden_size", 1024},
                     {"image_size", 336},
                     {"intermediate_size", 4096},
                     {"model_type", "clip_vision_model"},
                     {"num_attention_heads", 16},
                     {"num_hidden_layers", 24},
                     {"patch_size", 14}}}};
  CHECK(list_weights(parse_hf_config(llava, "config.json")).total_elements() == 7'063'427'072);
}

TEST_CASE("towers that are not modelled are refused") {
  const auto refused = [](const json& config, const char* why) {
    CHECK_THROWS_WITH_AS(parse_hf_config(config, "config.json"), doctest::Contains(why), InputError);
  };
  const json text{{"model_type", "llama"}};
  refused({{"model_type", "llava"}, {"text_config", text}, {"vision_config", {{"model_type", "pixtral"}}}},
          "only CLIP's and SigLIP's");
  refused({{"model_type", "llava"},
           {"text_config", text},
           {"vision_config", {{"model_type", "siglip_vision_model"}, {"vision_use_head", true}}}},
          "pooling head");
  refused({{"model_type", "llava_next"},
           {"text_config", text},
           {"vision_config", {{"model_type", "clip_vision_model"}}},
           {"image_grid_pinpoints", {{336, 500}}}},
          "whole squares of 336 pixels");
  refused({{"model_type", "llava_onevision"},
           {"text_config", text},
           {"vision_config", {{"model_type", "siglip_vision_model"}}},
           {"vision_aspect_ratio", "pad"}},
          "only anyres_max_9");
  refused({{"model_type", "mllama"},
           {"text_config", {{"model_type", "mllama_text_model"}, {"cross_attention_layers", {40}}}},
           {"vision_config", json::object()}},
          "40 is no layer");
  refused({{"model_type", "internvl"}, {"text_config", text}, {"vision_config", {{"norm_type", "rms_norm"}}}},
          "InternViT-6B");
  refused({{"model_type", "llava"}, {"vision_config", json::object()}}, "text_config");
  refused({{"model_type", "llava"}, {"text_config", {{"model_type", "zamba"}}}, {"vision_config", json::object()}},
          "'zamba' is not modelled");
  refused({{"model_type", "molmo"}}, "vision");
}
