#include "run/unit_view.h"

#include "base/error.h"

namespace gpuplan {

const PlacedTensor& UnitView::placed(std::uint16_t tensor, WeightUse use) const {
  const PlacedTensor* const found = layout ? layout->find(tensor, use) : nullptr;
  GPUPLAN_CHECK(found, "a call uses a tensor that its unit does not have");
  return *found;
}

ConstNumbers UnitView::weight(std::uint16_t tensor, WeightUse use) const {
  const PlacedTensor& t = placed(tensor, use);
  GPUPLAN_CHECK(!t.is_quantised, "a quantised weight is used as it is stored");
  const bool is_trained =
      !layout->trained.empty() && &t >= layout->trained.data() && &t < layout->trained.data() + layout->trained.size();
  if (is_trained) return {trained + bytes_of(t.begin, trained_dtype).count, trained_dtype};
  return {frozen + t.begin, t.dtype};
}

QuantisedWeight UnitView::quantised(std::uint16_t tensor, const QuantSpec& quant) const {
  const PlacedTensor& t = placed(tensor, WeightUse::Tensor);
  return {.codes = reinterpret_cast<const std::uint8_t*>(frozen + t.begin),
          .absmax_codes = quant.double_quant ? reinterpret_cast<const std::uint8_t*>(scales + t.scale_codes) : nullptr,
          .absmax_scales = reinterpret_cast<const float*>(scales + t.scales),
          .absmax_offset = quant.double_quant ? offsets[&t - layout->frozen.data()] : 0.0F};
}

Numbers UnitView::gradient_of(std::uint16_t tensor, WeightUse use) const {
  GPUPLAN_CHECK(gradient, "a call writes a gradient that the program does not keep");
  return {gradient + bytes_of(placed(tensor, use).begin, gradient_dtype).count, gradient_dtype};
}

bool UnitView::take_written(std::uint16_t tensor, WeightUse use) const {
  char& flag = (*written)[std::size_t(&placed(tensor, use) - layout->trained.data())];
  const bool was = flag != 0;
  flag = 1;
  return was;
}

}  // namespace gpuplan
