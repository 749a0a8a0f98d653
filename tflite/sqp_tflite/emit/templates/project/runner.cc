// Runs `{{ source }}` on TensorFlow Lite Micro. Made by sqp-export. Do not edit.
#include "{{ prefix }}_runner.h"

#include <stdint.h>

#include "{{ prefix }}_arena.h"
#include "{{ prefix }}_op_resolver.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

using namespace tflite;
using namespace tflite::micro;

// The schema version of the file; it has been 3 since 2017.
constexpr unsigned int kSchema = {{ graph.schema_version }};

alignas(16) uint8_t arena[{{ macro }}_ARENA_BYTES];

MicroInterpreter* interpreter = nullptr;

}  // namespace

int {{ prefix }}_prepare(void) {
  InitializeTarget();
  const Model* model = GetModel({{ prefix }}_data);
  if (model->version() != kSchema) return 1;
  static {{ prefix }}_ops::Resolver resolver;
  static const bool registered = {{ prefix }}_ops::Register(resolver);
  if (!registered) return 2;
  static MicroInterpreter held(model, resolver, arena, sizeof arena);
  if (held.AllocateTensors() != kTfLiteOk) return 3;
  interpreter = &held;
  return 0;
}

int {{ prefix }}_run(void) {
  if (interpreter == nullptr) return 1;
  return interpreter->Invoke() == kTfLiteOk ? 0 : 1;
}

size_t {{ prefix }}_arena_used(void) { return interpreter->arena_used_bytes(); }
{% for port in inputs %}

{{ port.c_type }}* {{ prefix }}_input_{{ port.name }}(void) {
  return static_cast<{{ port.c_type }}*>(interpreter->input({{ macro }}_{{ port.macro }}_INDEX)->data.data);
}
{% endfor %}
{% for port in outputs %}

const {{ port.c_type }}* {{ prefix }}_output_{{ port.name }}(void) {
  return static_cast<const {{ port.c_type }}*>(interpreter->output({{ macro }}_{{ port.macro }}_INDEX)->data.data);
}
{% endfor %}
