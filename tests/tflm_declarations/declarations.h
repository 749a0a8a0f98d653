// The few declarations of TensorFlow Lite Micro that the generated code uses, written down for the tests: enough to
// compile it, and to link it with the interpreter inside the `tflite-micro` wheel, whose layout they repeat. Older
// releases keep the classes in namespace tflite itself: OLD_NAMESPACE checks that the generated code compiles there too.
#ifndef TESTS_TFLM_DECLARATIONS_H_
#define TESTS_TFLM_DECLARATIONS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

void MicroPrintf(const char* format, ...);

#ifdef OLD_NAMESPACE
#define TFLM_BEGIN namespace tflite {
#define TFLM_END }
#else
#define TFLM_BEGIN namespace tflite { namespace micro {
#define TFLM_END } }
#endif

namespace tflite {

struct Operator;

struct Model {
  // A flatbuffer table: its field 0 is found through the table of offsets in front of it.
  uint32_t version() const {
    const uint8_t* self = reinterpret_cast<const uint8_t*>(this);
    int32_t back;
    memcpy(&back, self, sizeof back);
    uint16_t offset;
    memcpy(&offset, self - back + 4, sizeof offset);
    uint32_t value = 0;
    if (offset != 0) memcpy(&value, self + offset, sizeof value);
    return value;
  }
};

inline const Model* GetModel(const void* buffer) {
  uint32_t root;
  memcpy(&root, buffer, sizeof root);
  return reinterpret_cast<const Model*>(static_cast<const uint8_t*>(buffer) + root);
}

enum BuiltinOperator : int32_t {
  BuiltinOperator_ADD = 0,
  BuiltinOperator_CONCATENATION = 2,
  BuiltinOperator_CONV_2D = 3,
  BuiltinOperator_DEPTHWISE_CONV_2D = 4,
  BuiltinOperator_DEQUANTIZE = 6,
  BuiltinOperator_FULLY_CONNECTED = 9,
  BuiltinOperator_MUL = 18,
  BuiltinOperator_RESHAPE = 22,
  BuiltinOperator_CUSTOM = 32,
  BuiltinOperator_GATHER = 36,
  BuiltinOperator_MEAN = 40,
  BuiltinOperator_STRIDED_SLICE = 45,
  BuiltinOperator_SPLIT = 49,
  BuiltinOperator_CAST = 53,
  BuiltinOperator_SQRT = 75,
  BuiltinOperator_RSQRT = 76,
  BuiltinOperator_QUANTIZE = 114
};

}  // namespace tflite

TFLM_BEGIN

class MicroResourceVariables;
class MicroProfilerInterface;
class BuiltinDataAllocator;

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };

struct TfLiteTensor {
  struct {
    int type;
    void* params;
  } quantization;
  struct {
    float scale;
    int32_t zero_point;
  } params;
  union {
    void* data;
  } data;
  void* dims;
  size_t bytes;
};

struct TFLMRegistration {
  void* functions[5];
  int32_t builtin_code;
  const char* custom_name;
  void* room[2];
};

typedef TfLiteStatus (*Parser)(const Operator*, BuiltinDataAllocator*, void**);

class MicroOpResolver {
 public:
  virtual const TFLMRegistration* FindOp(BuiltinOperator op) const = 0;
  virtual const TFLMRegistration* FindOp(const char* op) const = 0;
  virtual Parser GetOpDataParser(BuiltinOperator op) const = 0;
  virtual ~MicroOpResolver() {}
};

inline void InitializeTarget() {}

class MicroAllocator {
 public:
  size_t used_bytes() const;
};

class MicroInterpreter {
 public:
  MicroInterpreter(const Model* model, const MicroOpResolver& resolver, uint8_t* arena, size_t size,
                   MicroResourceVariables* variables = nullptr, MicroProfilerInterface* profiler = nullptr,
                   bool preserve_all_tensors = false);
  ~MicroInterpreter();
  TfLiteStatus AllocateTensors();
  TfLiteStatus Invoke();
  TfLiteTensor* input(size_t index);
  TfLiteTensor* output(size_t index);
  size_t arena_used_bytes() const { return allocator_->used_bytes(); }

 private:
  const Model* model_;
  const MicroOpResolver* resolver_;
  void* context_;
  MicroAllocator* allocator_;
  uint8_t rest_[4096];
};

#define TFLM_OP(Method, CODE, Parse)                                                  \
  TFLMRegistration Register_##CODE();                                                 \
  TfLiteStatus Parse(const Operator*, BuiltinDataAllocator*, void**);
#define TFLM_OPS                                                      \
  TFLM_OP(AddAdd, ADD, ParseAdd)                                      \
  TFLM_OP(AddCast, CAST, ParseCast)                                   \
  TFLM_OP(AddConcatenation, CONCATENATION, ParseConcatenation)        \
  TFLM_OP(AddConv2D, CONV_2D, ParseConv2D)                            \
  TFLM_OP(AddDepthwiseConv2D, DEPTHWISE_CONV_2D, ParseDepthwiseConv2D) \
  TFLM_OP(AddDequantize, DEQUANTIZE, ParseDequantize)                 \
  TFLM_OP(AddFullyConnected, FULLY_CONNECTED, ParseFullyConnected)    \
  TFLM_OP(AddGather, GATHER, ParseGather)                             \
  TFLM_OP(AddMean, MEAN, ParseReducer)                                \
  TFLM_OP(AddMul, MUL, ParseMul)                                      \
  TFLM_OP(AddQuantize, QUANTIZE, ParseQuantize)                       \
  TFLM_OP(AddReshape, RESHAPE, ParseReshape)                          \
  TFLM_OP(AddRsqrt, RSQRT, ParseRsqrt)                                \
  TFLM_OP(AddSplit, SPLIT, ParseSplit)                                \
  TFLM_OP(AddSqrt, SQRT, ParseSqrt)                                   \
  TFLM_OP(AddStridedSlice, STRIDED_SLICE, ParseStridedSlice)
TFLM_OPS
#undef TFLM_OP

template <unsigned int kRoom>
class MicroMutableOpResolver : public MicroOpResolver {
 public:
  const TFLMRegistration* FindOp(BuiltinOperator op) const override {
    for (unsigned int i = 0; i < count_; ++i) {
      if (codes_[i] == op) return &registrations_[i];
    }
    return nullptr;
  }
  const TFLMRegistration* FindOp(const char*) const override { return nullptr; }
  TfLiteStatus AddEthosU() { return kTfLiteOk; }  // As without the driver of the NPU, which nothing here has.
  Parser GetOpDataParser(BuiltinOperator op) const override {
    for (unsigned int i = 0; i < count_; ++i) {
      if (codes_[i] == op) return parsers_[i];
    }
    return nullptr;
  }

#define TFLM_OP(Method, CODE, Parse) \
  TfLiteStatus Method() { return Put(BuiltinOperator_##CODE, Register_##CODE(), Parse); }
  TFLM_OPS
#undef TFLM_OP

 private:
  // Like TFLM's own: an operator too many, or one given twice, is an error.
  TfLiteStatus Put(BuiltinOperator code, const TFLMRegistration& registration, Parser parser) {
    if (count_ == kRoom || FindOp(code) != nullptr) return kTfLiteError;
    codes_[count_] = code;
    registrations_[count_] = registration;
    registrations_[count_].builtin_code = code;
    parsers_[count_++] = parser;
    return kTfLiteOk;
  }

  TFLMRegistration registrations_[kRoom];
  BuiltinOperator codes_[kRoom];
  Parser parsers_[kRoom];
  unsigned int count_ = 0;
};

TFLM_END

#endif  // TESTS_TFLM_DECLARATIONS_H_
