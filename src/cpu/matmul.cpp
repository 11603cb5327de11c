// Matrix products through OpenBLAS, called single-threaded from our own threads: one pool for everything, and
// the expression that follows a product runs on each block of the result while it is in the cache.
#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/thread_pool.h"
#include "cpu/blas.h"
#include "cpu/kernels.h"
#include "cpu/scratch.h"
#include "cpu/tile_program.h"
#include "hearth/error.h"

// Exported by OpenBLAS, and absent from other libraries that bring the same header.
extern "C" void openblas_set_num_threads(int);

namespace hearth::cpu {

void keep_blas_on_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

namespace {

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), 0.0f, c, static_cast<int>(ldc));
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n, std::int64_t k,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), 0.0, c, static_cast<int>(ldc));
}
void gemv(CBLAS_TRANSPOSE t, std::int64_t rows, std::int64_t columns, const float* a, std::int64_t lda,
          const float* x, std::int64_t dx, float* y, std::int64_t dy) {
  cblas_sgemv(CblasRowMajor, t, static_cast<int>(rows), static_cast<int>(columns), 1.0f, a,
              static_cast<int>(lda), x, static_cast<int>(dx), 0.0f, y, static_cast<int>(dy));
}
void gemv(CBLAS_TRANSPOSE t, std::int64_t rows, std::int64_t columns, const double* a, std::int64_t lda,
          const double* x, std::int64_t dx, double* y, std::int64_t dy) {
  cblas_dgemv(CblasRowMajor, t, static_cast<int>(rows), static_cast<int>(columns), 1.0, a,
              static_cast<int>(lda), x, static_cast<int>(dx), 0.0, y, static_cast<int>(dy));
}

// One operand: a stack of matrices.
struct Operand {
  DType dtype;
  Shape batch;
  Strides batch_strides;
  std::int64_t rows, columns, row_stride, column_stride;
  bool usable = false;      // by BLAS, where it is
  bool transposed = false;  // as BLAS sees it
  std::int64_t leading = 1;

  explicit Operand(const Layout& layout) : dtype(layout.dtype) {
    const std::size_t ndim = layout.shape.size();
    batch = Shape(layout.shape.begin(), layout.shape.end() - 2);
    batch_strides = Strides(layout.strides.begin(), layout.strides.end() - 2);
    rows = layout.shape[ndim - 2];
    columns = layout.shape[ndim - 1];
    row_stride = layout.strides[ndim - 2];
    column_stride = layout.strides[ndim - 1];
    const auto fits = [](std::int64_t inner_size, std::int64_t inner_stride, std::int64_t outer_size,
                         std::int64_t outer_stride) {
      return (inner_stride == 1 || inner_size == 1) && (outer_stride >= inner_size || outer_size == 1) &&
             outer_stride <= std::numeric_limits<int>::max();
    };
    if (fits(columns, column_stride, rows, row_stride)) {
      usable = true;
      leading = std::max({std::int64_t{1}, columns, rows == 1 ? 1 : row_stride});
    } else if (fits(rows, row_stride, columns, column_stride)) {
      usable = transposed = true;
      leading = std::max({std::int64_t{1}, rows, columns == 1 ? 1 : column_stride});
    }
  }

  std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (std::size_t i = batch.size(); i-- > 0;) {
      result += index % batch[i] * batch_strides[i];
      index /= batch[i];
    }
    return result;
  }
};

// A dense copy of one matrix as T.
template <typename T, typename S>
void convert_matrix(const Operand& operand, const void* base, std::int64_t index, T* out) {
  const S* in = static_cast<const S*>(base) + operand.offset(index);
  parallel_for(operand.rows, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, operand.columns)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto r = begin; r < end; ++r)
                   for (std::int64_t c = 0; c < operand.columns; ++c)
                     out[r * operand.columns + c] =
                         static_cast<T>(in[r * operand.row_stride + c * operand.column_stride]);
               });
}

// T: f32 or f64, what BLAS computes in. Halves are converted to f32 matrix by matrix.
template <typename T>
class MatmulKernel final : public Kernel {
 public:
  explicit MatmulKernel(const Step& step)
      : a_(step.inputs[0]),
        b_(step.inputs[1]),
        result_(step.outputs[0].dtype),
        m_(a_.rows),
        n_(b_.columns),
        k_(a_.columns),
        batches_(element_count(a_.batch)) {
    if (std::max({m_, n_, k_}) > std::numeric_limits<int>::max())
      throw BlasError(fmt::format("[matmul] {} x {} x {} is too large for the BLAS library", m_, n_, k_));
    keep_blas_on_one_thread();
    if (!step.expression.instructions.empty()) {
      program_ = std::make_unique<TileProgram>(step.expression);
      for (std::size_t i = 2; i < step.inputs.size(); ++i) sources_.emplace_back(step.inputs[i]);
      for (const auto& output : step.outputs) output_sizes_.push_back(dtype_size(output.dtype));
    }
  }

  void run(const KernelArguments& arguments) const override {
    if (m_ == 0 || n_ == 0 || batches_ == 0) return;
    const bool copy_a = !a_.usable || a_.dtype != dtype_of<T>, copy_b = !b_.usable || b_.dtype != dtype_of<T>;
    if (copy_a || copy_b || result_ != dtype_of<T>)
      run_converted(arguments, copy_a, copy_b);
    else
      run_direct(arguments);
  }

 private:
  struct Matrix {
    const T* data;
    bool transposed;
    std::int64_t leading;
    const T* at(std::int64_t row, std::int64_t column) const {
      return data + (transposed ? column * leading + row : row * leading + column);
    }
    CBLAS_TRANSPOSE transpose() const { return transposed ? CblasTrans : CblasNoTrans; }
  };

  Matrix matrix(const Operand& operand, const void* base, std::int64_t batch) const {
    return {static_cast<const T*>(base) + operand.offset(batch), operand.transposed, operand.leading};
  }

  struct Block {  // of the product
    std::int64_t row, rows, column, columns;
  };

  // c = block of a @ b
  void multiply(const Matrix& a, const Matrix& b, const Block& block, T* c, std::int64_t ldc) const {
    const auto [row, rows, column, columns] = block;
    if (k_ == 0) {
      for (std::int64_t r = 0; r < rows; ++r) std::fill_n(c + r * ldc, columns, T(0));
    } else if (columns == 1) {
      const T* x = b.at(0, column);
      const auto step = b.transposed ? 1 : b.leading;
      if (a.transposed)
        gemv(CblasTrans, k_, rows, a.at(row, 0), a.leading, x, step, c, ldc);
      else
        gemv(CblasNoTrans, rows, k_, a.at(row, 0), a.leading, x, step, c, ldc);
    } else if (rows == 1) {
      const T* x = a.at(row, 0);
      const auto step = a.transposed ? a.leading : 1;
      if (b.transposed)
        gemv(CblasNoTrans, columns, k_, b.at(0, column), b.leading, x, step, c, 1);
      else
        gemv(CblasTrans, k_, columns, b.at(0, column), b.leading, x, step, c, 1);
    } else {
      gemm(a.transpose(), b.transpose(), rows, columns, k_, a.at(row, 0), a.leading, b.at(0, column),
           b.leading, c, ldc);
    }
  }

  // How one product is divided among threads.
  struct Division {
    std::int64_t row_parts, column_parts;
  };
  Division divide(std::int64_t products) const {
    const double operations =
        2.0 * static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
    const std::int64_t threads = thread_count();
    if (products >= threads || operations * static_cast<double>(products) < 2e5) return {1, 1};
    const auto wanted =
        std::min<std::int64_t>((threads + products - 1) / products,
                               std::max<std::int64_t>(1, static_cast<std::int64_t>(operations / 1e5)));
    Division best{1, 1};
    double best_cost = std::numeric_limits<double>::infinity();
    for (std::int64_t rows = 1; rows <= wanted; ++rows) {
      if (wanted % rows != 0 || rows > m_ || wanted / rows > n_) continue;
      // Each part reads its rows of a and columns of b: the less, the better.
      const double cost = static_cast<double>(m_) / static_cast<double>(rows) +
                          static_cast<double>(n_) / static_cast<double>(wanted / rows);
      if (cost < best_cost) best_cost = cost, best = {rows, wanted / rows};
    }
    return best;
  }

  void run_direct(const KernelArguments& arguments) const {
    multiply_all(arguments, batches_, [&](std::int64_t batch) {
      return std::pair{matrix(a_, arguments.inputs[0], batch), matrix(b_, arguments.inputs[1], batch)};
    });
  }

  // `first` is the batch's index of the first product, for the expression.
  template <typename GetMatrices>
  void multiply_all(const KernelArguments& arguments, std::int64_t products, GetMatrices get,
                    std::int64_t first = 0) const {
    const Division division = divide(products);
    const auto parts = division.row_parts * division.column_parts;
    const double operations =
        2.0 * static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
    const auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(1e5 / std::max(1.0, operations)));
    parallel_for(products * parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto job = begin; job < end; ++job) {
        const auto batch = job / parts, part = job % parts;
        const auto row_part = part / division.column_parts, column_part = part % division.column_parts;
        const auto row = m_ * row_part / division.row_parts,
                   row_end = m_ * (row_part + 1) / division.row_parts;
        const auto column = n_ * column_part / division.column_parts,
                   column_end = n_ * (column_part + 1) / division.column_parts;
        const auto [a, b] = get(batch);
        const Block block{row, row_end - row, column, column_end - column};
        if (program_) {
          multiply_and_go_on(arguments, a, b, first + batch, block);
        } else {
          T* c = static_cast<T*>(arguments.outputs[0]) + (batch * m_ + row) * n_ + column;
          multiply(a, b, block, c, n_);
        }
      }
    });
  }

  // Some rows at a time: the product into scratch, then the expression over it. Few rows would be a waste,
  // since the BLAS rearranges all of b for every call.
  void multiply_and_go_on(const KernelArguments& arguments, const Matrix& a, const Matrix& b,
                          std::int64_t batch, const Block& block) const {
    constexpr std::int64_t elements = 1024 * 1024, long_row = 512;
    const auto most = std::clamp<std::int64_t>(elements / block.columns, 1, block.rows);
    const Scratch scratch(most * block.columns * static_cast<std::int64_t>(sizeof(T) / sizeof(float)));
    T* product = reinterpret_cast<T*>(scratch.data());
    TileProgram::Workspace workspace(*program_, arguments.numbers);
    for (std::int64_t done = 0; done < block.rows; done += most) {
      const auto rows = std::min(most, block.rows - done);
      multiply(a, b, {block.row + done, rows, block.column, block.columns}, product, block.columns);
      const auto first = (batch * m_ + block.row + done) * n_ + block.column;
      if (block.columns == n_ && n_ < long_row) {
        go_on(arguments, workspace, product, first, rows * n_);
      } else {
        for (std::int64_t r = 0; r < rows; ++r)
          go_on(arguments, workspace, product + r * block.columns, first + r * n_, block.columns);
      }
    }
  }

  void go_on(const KernelArguments& arguments, TileProgram::Workspace& workspace, const T* product,
             std::int64_t first, std::int64_t count) const {
    const auto tile = program_->tile_length();
    for (std::int64_t start = 0; start < count; start += tile) {
      const auto n = std::min(tile, count - start);
      program_->set_input(workspace, 0, product + start, n);
      for (std::size_t i = 0; i < sources_.size(); ++i)
        program_->read_input(workspace, i + 1, sources_[i], arguments.inputs[i + 2], first + start, n);
      for (std::size_t k = 0; k < output_sizes_.size(); ++k)
        program_->set_output(workspace, k, output_at(arguments, k, first + start));
      program_->run(workspace, n);
      for (std::size_t k = 0; k < output_sizes_.size(); ++k)
        program_->write_output(workspace, k, output_at(arguments, k, first + start), n);
    }
  }
  char* output_at(const KernelArguments& arguments, std::size_t k, std::int64_t element) const {
    return static_cast<char*>(arguments.outputs[k]) + element * static_cast<std::int64_t>(output_sizes_[k]);
  }

  void copy(const Operand& operand, const void* base, std::int64_t batch, T* out) const {
    switch (operand.dtype) {
      case DType::f16:
        return convert_matrix<T, float16>(operand, base, batch, out);
      case DType::bf16:
        return convert_matrix<T, bfloat16>(operand, base, batch, out);
      default:
        return convert_matrix<T, T>(operand, base, batch, out);
    }
  }

  void run_converted(const KernelArguments& arguments, bool copy_a, bool copy_b) const {
    AlignedBytes a_scratch(copy_a ? static_cast<std::size_t>(m_ * k_) * sizeof(T) : 0);
    AlignedBytes b_scratch(copy_b ? static_cast<std::size_t>(k_ * n_) * sizeof(T) : 0);
    AlignedBytes c_scratch(result_ == dtype_of<T> ? 0 : static_cast<std::size_t>(m_ * n_) * sizeof(T));
    std::int64_t a_offset = -1,
                 b_offset = -1;  // what the scratch holds: a broadcast operand is converted once
    for (std::int64_t batch = 0; batch < batches_; ++batch) {
      Matrix a = copy_a ? Matrix{reinterpret_cast<T*>(a_scratch.data()), false, std::max<std::int64_t>(1, k_)}
                        : matrix(a_, arguments.inputs[0], batch);
      Matrix b = copy_b ? Matrix{reinterpret_cast<T*>(b_scratch.data()), false, std::max<std::int64_t>(1, n_)}
                        : matrix(b_, arguments.inputs[1], batch);
      if (copy_a && a_.offset(batch) != a_offset) {
        a_offset = a_.offset(batch);
        copy(a_, arguments.inputs[0], batch, const_cast<T*>(a.data));
      }
      if (copy_b && b_.offset(batch) != b_offset) {
        b_offset = b_.offset(batch);
        copy(b_, arguments.inputs[1], batch, const_cast<T*>(b.data));
      }
      // The batch's own outputs: shift them so that it is the first.
      std::vector<void*> outputs;
      const bool convert = result_ != dtype_of<T>;
      if (convert) {
        outputs.push_back(c_scratch.data());
      } else {
        outputs.push_back(static_cast<T*>(arguments.outputs[0]) + batch * m_ * n_);
      }
      if (program_) {
        multiply_all(
            arguments, 1,
            [&](std::int64_t) {
              return std::pair{a, b};
            },
            batch);
        continue;
      }
      const KernelArguments one{arguments.inputs, outputs.data(), arguments.numbers};
      multiply_all(one, 1, [&](std::int64_t) { return std::pair{a, b}; });
      if (convert)
        store_halves(reinterpret_cast<const T*>(c_scratch.data()), batch * m_ * n_, arguments.outputs[0]);
    }
  }

  void store_halves(const T* product, std::int64_t first, void* out) const {
    const auto store = elementwise_kernels().store[static_cast<int>(result_)];
    parallel_for(m_ * n_, 16384, [&](std::int64_t begin, std::int64_t end) {
      store(static_cast<std::uint16_t*>(out) + first + begin, product + begin, nullptr, nullptr, end - begin);
    });
  }

  Operand a_, b_;
  DType result_;
  std::int64_t m_, n_, k_, batches_;
  std::unique_ptr<TileProgram> program_;
  std::vector<TileSource> sources_;
  std::vector<std::size_t> output_sizes_;
};

// Integers: exact, wrapping around.
template <typename T>
class IntegerMatmulKernel final : public Kernel {
 public:
  explicit IntegerMatmulKernel(const Step& step) : a_(step.inputs[0]), b_(step.inputs[1]) {}

  void run(const KernelArguments& arguments) const override {
    const auto m = a_.rows, n = b_.columns, k = a_.columns;
    parallel_for(element_count(a_.batch) * m, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto job = begin; job < end; ++job) {
        const T* a =
            static_cast<const T*>(arguments.inputs[0]) + a_.offset(job / m) + job % m * a_.row_stride;
        const T* b = static_cast<const T*>(arguments.inputs[1]) + b_.offset(job / m);
        T* c = static_cast<T*>(arguments.outputs[0]) + job * n;
        std::fill_n(c, n, T(0));
        for (std::int64_t i = 0; i < k; ++i) {
          const auto factor = static_cast<std::uint64_t>(a[i * a_.column_stride]);
          for (std::int64_t j = 0; j < n; ++j)
            c[j] = static_cast<T>(
                static_cast<std::uint64_t>(c[j]) +
                factor * static_cast<std::uint64_t>(b[i * b_.row_stride + j * b_.column_stride]));
        }
      }
    });
  }

 private:
  Operand a_, b_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const Step& step) {
  switch (step.inputs[0].dtype) {
    case DType::f64:
      return std::make_unique<MatmulKernel<double>>(step);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return std::make_unique<MatmulKernel<float>>(step);
    case DType::i64:
      return std::make_unique<IntegerMatmulKernel<std::int64_t>>(step);
    case DType::i32:
      return std::make_unique<IntegerMatmulKernel<std::int32_t>>(step);
    case DType::i16:
      return std::make_unique<IntegerMatmulKernel<std::int16_t>>(step);
    case DType::i8:
      return std::make_unique<IntegerMatmulKernel<std::int8_t>>(step);
    case DType::u8:
      return std::make_unique<IntegerMatmulKernel<std::uint8_t>>(step);
    default:
      throw DTypeError("[matmul] bool has no product; cast to an integer first");
  }
}

}  // namespace hearth::cpu
