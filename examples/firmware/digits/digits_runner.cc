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

#ifndef DIGITS_NO_ARENA
DIGITS_ARENA_ATTRIBUTE alignas(16) uint8_t arena[DIGITS_ARENA_BYTES];
#endif

// Objects with a destructor are made in place: as static objects they would need functions that firmware often lacks
// (__cxa_atexit, __cxa_guard_acquire).
alignas(digits_ops::Resolver) uint8_t room_of_resolver[sizeof(digits_ops::Resolver)];
alignas(MicroInterpreter) uint8_t room_of_interpreter[sizeof(MicroInterpreter)];

MicroInterpreter* interpreter = nullptr;

struct Room {
  void* begin;
};

}  // namespace

inline void* operator new(size_t, Room room) noexcept { return room.begin; }

int digits_prepare_in(void* memory, size_t bytes) {
  digits_release();
  InitializeTarget();
  if (reinterpret_cast<uintptr_t>(memory) % 16 != 0) return DIGITS_SMALL_ARENA;
  const Model* model = GetModel(digits_data);
  if (reinterpret_cast<uintptr_t>(digits_data) % 16 != 0 || model->version() != kSchema) return DIGITS_WRONG_SCHEMA;
  digits_ops::Resolver* resolver = new (Room{room_of_resolver}) digits_ops::Resolver();
  if (!digits_ops::Register(*resolver)) return DIGITS_NO_OPERATOR;
  MicroInterpreter* made = new (Room{room_of_interpreter}) MicroInterpreter(model, *resolver, static_cast<uint8_t*>(memory), bytes);
  if (made->AllocateTensors() != kTfLiteOk) {
    made->~MicroInterpreter();
    return DIGITS_SMALL_ARENA;
  }
  interpreter = made;
  return DIGITS_OK;
}

#ifndef DIGITS_NO_ARENA
int digits_prepare(void) { return digits_prepare_in(arena, sizeof arena); }
#endif

void digits_release(void) {
  if (interpreter != nullptr) interpreter->~MicroInterpreter();
  interpreter = nullptr;
}

int digits_run(void) {
  if (interpreter == nullptr) return DIGITS_NOT_PREPARED;
  return interpreter->Invoke() == kTfLiteOk ? DIGITS_OK : DIGITS_FAILED;
}

size_t digits_arena_used(void) { return interpreter == nullptr ? 0 : interpreter->arena_used_bytes(); }

int8_t* digits_input_image(void) {
  if (interpreter == nullptr) return nullptr;
  return static_cast<int8_t*>(interpreter->input(DIGITS_INPUT_IMAGE_INDEX)->data.data);
}

const int8_t* digits_output_digit(void) {
  if (interpreter == nullptr) return nullptr;
  return static_cast<const int8_t*>(interpreter->output(DIGITS_OUTPUT_DIGIT_INDEX)->data.data);
}
