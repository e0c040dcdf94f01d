// Loads from and stores to the caller's tensors. Columns that lie side by side are taken a vector at a time.

template <DType kType>
void load_lines(Extent extent, MemoryRef from, Out out) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const auto* line = static_cast<const typename Stored<kType>::Element*>(from.data) + r * from.row_stride;
    float* to = out.data + r * out.row_step;
    std::int64_t c = 0;
    for (; c + kLanes <= extent.cols; c += kLanes) store(to + c, Stored<kType>::get(line + c));
    if (c < extent.cols) store(to + c, get_some<kType>(line + c, extent.cols - c));
  }
}

template <DType kType>
void store_lines(Extent extent, Arg in, MemoryRef to, bool accumulate) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    auto* line = static_cast<typename Stored<kType>::Element*>(to.data) + r * to.row_stride;
    const float* from = in.data + r * in.row_step;
    std::int64_t c = 0;
    for (; c + kLanes <= extent.cols; c += kLanes) {
      const Vector value = load(from + c);
      Stored<kType>::put(line + c, accumulate ? Stored<kType>::get(line + c) + value : value);
    }
    const std::int64_t left = extent.cols - c;
    if (left <= 0) continue;
    const Vector value = load(from + c);
    put_some<kType>(line + c, accumulate ? get_some<kType>(line + c, left) + value : value, left);
  }
}

void load_memory(Extent extent, MemoryRef from, Out out) {
  if (from.col_stride == 1 || extent.cols == 1) {
    if (from.dtype == DType::F32) return load_lines<DType::F32>(extent, from, out);
    if (from.dtype == DType::BF16) return load_lines<DType::BF16>(extent, from, out);
    if (from.dtype == DType::F16) return load_lines<DType::F16>(extent, from, out);
  }
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    for (std::int64_t c = 0; c < extent.cols; ++c) {
      const std::int64_t i = r * from.row_stride + c * from.col_stride;
      out.data[r * out.row_step + c] = static_cast<float>(load_element(from.dtype, from.data, i));
    }
  }
}

void store_memory(Extent extent, Arg in, MemoryRef to, bool accumulate) {
  if ((to.col_stride == 1 || extent.cols == 1) && !in.spread) {
    if (to.dtype == DType::F32) return store_lines<DType::F32>(extent, in, to, accumulate);
    if (to.dtype == DType::BF16) return store_lines<DType::BF16>(extent, in, to, accumulate);
    if (to.dtype == DType::F16) return store_lines<DType::F16>(extent, in, to, accumulate);
  }
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    for (std::int64_t c = 0; c < extent.cols; ++c) {
      const std::int64_t i = r * to.row_stride + c * to.col_stride;
      const double value = in.data[r * in.row_step + (in.spread ? 0 : c)];
      store_element(to.dtype, to.data, i, accumulate ? load_element(to.dtype, to.data, i) + value : value);
    }
  }
}
