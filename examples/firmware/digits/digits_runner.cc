// Runs `digits.keras` on TensorFlow Lite Micro. Made by sqp-export. Do not edit.
#include "digits_runner.h"

#include <stdint.h>

#include "digits_arena.h"
#include "digits_op_resolver.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

using namespace tflite;
using namespace tflite::micro;

// The schema version of the file; it has been 3 since 2017.
constexpr unsigned int kSchema = 3;

alignas(16) uint8_t arena[DIGITS_ARENA_BYTES];

MicroInterpreter* interpreter = nullptr;

}  // namespace

int digits_prepare(void) {
  InitializeTarget();
  const Model* model = GetModel(digits_data);
  if (model->version() != kSchema) return 1;
  static digits_ops::Resolver resolver;
  static const bool registered = digits_ops::Register(resolver);
  if (!registered) return 2;
  static MicroInterpreter held(model, resolver, arena, sizeof arena);
  if (held.AllocateTensors() != kTfLiteOk) return 3;
  interpreter = &held;
  return 0;
}

int digits_run(void) {
  if (interpreter == nullptr) return 1;
  return interpreter->Invoke() == kTfLiteOk ? 0 : 1;
}

size_t digits_arena_used(void) { return interpreter->arena_used_bytes(); }

int8_t* digits_input_image(void) {
  return static_cast<int8_t*>(interpreter->input(DIGITS_INPUT_IMAGE_INDEX)->data.data);
}

const int8_t* digits_output_digit(void) {
  return static_cast<const int8_t*>(interpreter->output(DIGITS_OUTPUT_DIGIT_INDEX)->data.data);
}
