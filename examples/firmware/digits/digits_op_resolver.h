// Exactly the operators of `digits.keras`. Made by sqp-export. Do not edit.
#ifndef DIGITS_OP_RESOLVER_H_
#define DIGITS_OP_RESOLVER_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

namespace tflite {
namespace micro {}  // Newer releases have their classes here; older ones have them in tflite.
}  // namespace tflite

namespace digits_ops {

using namespace tflite;
using namespace tflite::micro;

constexpr unsigned int kCount = 6;
using Resolver = MicroMutableOpResolver<kCount>;

// Returns whether every operator was registered.
inline bool Register(Resolver& resolver) {
  // CONV_2D version 3, int8, 2 times: strokes, parts
  if (resolver.AddConv2D() != kTfLiteOk) return false;
  // CAST version 3, int8, 2 times: strokes, parts
  if (resolver.AddCast() != kTfLiteOk) return false;
  // ADD version 1, int32, 2 times: strokes, parts
  if (resolver.AddAdd() != kTfLiteOk) return false;
  // GATHER version 2, int8, 2 times: strokes, parts
  if (resolver.AddGather() != kTfLiteOk) return false;
  // RESHAPE version 1, int8, once: flat
  if (resolver.AddReshape() != kTfLiteOk) return false;
  // FULLY_CONNECTED version 4, int8, once: digit
  if (resolver.AddFullyConnected() != kTfLiteOk) return false;
  return true;
}

}  // namespace digits_ops

#endif  // DIGITS_OP_RESOLVER_H_
