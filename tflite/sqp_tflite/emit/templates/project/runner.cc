// Runs `{{ source }}` on TensorFlow Lite Micro. Made by sqp-export. Do not edit.
#include "{{ prefix }}_runner.h"

#include <stdint.h>
{% if m.stepped %}
#include <string.h>
{% endif %}

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

#ifndef {{ macro }}_NO_ARENA
{{ macro }}_ARENA_ATTRIBUTE alignas(16) uint8_t arena[{{ macro }}_ARENA_BYTES];
#endif

// Objects with a destructor are made in place: as static objects they would need functions that firmware often lacks
// (__cxa_atexit, __cxa_guard_acquire).
alignas({{ prefix }}_ops::Resolver) uint8_t room_of_resolver[sizeof({{ prefix }}_ops::Resolver)];
alignas(MicroInterpreter) uint8_t room_of_interpreter[sizeof(MicroInterpreter)];

MicroInterpreter* interpreter = nullptr;
{% for held in m.states %}

// What `{{ held.input.name }}` begins a sequence with, and what it is now.
constexpr {{ held.input.c_type }} first_{{ held.input.name }}[] = { {{- held.first | join(", ") -}} };
{{ held.input.c_type }} now_{{ held.input.name }}[{{ macro }}_{{ held.input.macro }}_ELEMENTS];
{% endfor %}

struct Room {
  void* begin;
};

}  // namespace

inline void* operator new(size_t, Room room) noexcept { return room.begin; }

int {{ prefix }}_prepare_in(void* memory, size_t bytes) {
  {{ prefix }}_release();
  InitializeTarget();
  if (reinterpret_cast<uintptr_t>(memory) % 16 != 0) return {{ macro }}_SMALL_ARENA;
  const Model* model = GetModel({{ prefix }}_data);
  if (reinterpret_cast<uintptr_t>({{ prefix }}_data) % 16 != 0 || model->version() != kSchema) return {{ macro }}_WRONG_SCHEMA;
  {{ prefix }}_ops::Resolver* resolver = new (Room{room_of_resolver}) {{ prefix }}_ops::Resolver();
  if (!{{ prefix }}_ops::Register(*resolver)) return {{ macro }}_NO_OPERATOR;
  MicroInterpreter* made = new (Room{room_of_interpreter}) MicroInterpreter(model, *resolver, static_cast<uint8_t*>(memory), bytes);
  if (made->AllocateTensors() != kTfLiteOk) {
    made->~MicroInterpreter();
    return {{ macro }}_SMALL_ARENA;
  }
  interpreter = made;
{% if m.stepped %}
  {{ prefix }}_reset();
{% endif %}
  return {{ macro }}_OK;
}

#ifndef {{ macro }}_NO_ARENA
int {{ prefix }}_prepare(void) { return {{ prefix }}_prepare_in(arena, sizeof arena); }
#endif

void {{ prefix }}_release(void) {
  if (interpreter != nullptr) interpreter->~MicroInterpreter();
  interpreter = nullptr;
}

int {{ prefix }}_run(void) {
  if (interpreter == nullptr) return {{ macro }}_NOT_PREPARED;
  return interpreter->Invoke() == kTfLiteOk ? {{ macro }}_OK : {{ macro }}_FAILED;
}

{% if m.stepped %}
void {{ prefix }}_reset(void) {
{% for held in m.states %}
  memcpy(now_{{ held.input.name }}, first_{{ held.input.name }}, sizeof now_{{ held.input.name }});
{% endfor %}
}

int {{ prefix }}_step({% for port in m.fed %}const {{ port.c_type }}* in_{{ port.name }}, {% endfor %}{% for port in m.given %}{{ port.c_type }}* out_{{ port.name }}{{ ", " if not loop.last }}{% endfor %}) {
  if (interpreter == nullptr) return {{ macro }}_NOT_PREPARED;
{% for port in m.fed %}
  memcpy({{ prefix }}_input_{{ port.name }}(), in_{{ port.name }}, {{ macro }}_{{ port.macro }}_BYTES);
{% endfor %}
{% for held in m.states %}
  memcpy({{ prefix }}_input_{{ held.input.name }}(), now_{{ held.input.name }}, sizeof now_{{ held.input.name }});
{% endfor %}
  if ({{ prefix }}_run() != {{ macro }}_OK) return {{ macro }}_FAILED;
{% for held in m.states %}
  memcpy(now_{{ held.input.name }}, {{ prefix }}_output_{{ held.output.name }}(), sizeof now_{{ held.input.name }});
{% endfor %}
{% for port in m.given %}
  memcpy(out_{{ port.name }}, {{ prefix }}_output_{{ port.name }}(), {{ macro }}_{{ port.macro }}_BYTES);
{% endfor %}
  return {{ macro }}_OK;
}

{% endif %}
size_t {{ prefix }}_arena_used(void) { return interpreter == nullptr ? 0 : interpreter->arena_used_bytes(); }
{% for port in inputs %}

{{ port.c_type }}* {{ prefix }}_input_{{ port.name }}(void) {
  if (interpreter == nullptr) return nullptr;
  return static_cast<{{ port.c_type }}*>(interpreter->input({{ macro }}_{{ port.macro }}_INDEX)->data.data);
}
{% endfor %}
{% for port in outputs %}

const {{ port.c_type }}* {{ prefix }}_output_{{ port.name }}(void) {
  if (interpreter == nullptr) return nullptr;
  return static_cast<const {{ port.c_type }}*>(interpreter->output({{ macro }}_{{ port.macro }}_INDEX)->data.data);
}
{% endfor %}
