/* How to run `{{ source }}`: prepare once, then fill the input, run, read the output. C99 and C++11.
   Made by sqp-export. Do not edit. */
#ifndef {{ macro }}_RUNNER_H_
#define {{ macro }}_RUNNER_H_

#include <stddef.h>
#include <stdint.h>

#include "{{ prefix }}_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. */
enum {
  {{ macro }}_OK = 0,
  {{ macro }}_WRONG_SCHEMA = 1,    /* the array is no model, or not aligned to 16 bytes */
  {{ macro }}_NO_OPERATOR = 2,     /* an operator was not registered */
  {{ macro }}_SMALL_ARENA = 3,     /* the arena is too small, or not aligned to 16 bytes */
  {{ macro }}_NOT_PREPARED = 4,    /* prepare first */
  {{ macro }}_FAILED = 5           /* an operator reported an error */
};

/* Makes the model ready, in the runner's own arena of {{ macro }}_ARENA_BYTES. A second call starts anew. */
int {{ prefix }}_prepare(void);

/* The same in memory of the caller's, aligned to 16 bytes. Models that do not run at the same time may share it: release
   one before you prepare the other. */
int {{ prefix }}_prepare_in(void* arena, size_t bytes);

/* Forgets the model; its arena may be used for something else. Prepare again before the next run. */
void {{ prefix }}_release(void);

/* Runs the model on its inputs; the outputs are valid if it returns {{ macro }}_OK. */
int {{ prefix }}_run(void);

{% if m.stepped %}
/* Begins a sequence: every state gets its first value. {{ prefix }}_prepare does it, too. */
void {{ prefix }}_reset(void);

/* Runs one time step and keeps the states for the next one. The outputs are valid if it returns {{ macro }}_OK.
{% for port in m.fed %}
   in_{{ port.name }}: {{ port.tensor.elements }} values of this step.
{% endfor %}
{% for port in m.given %}
   out_{{ port.name }}: room for {{ port.tensor.elements }} values.
{% endfor %}
*/
int {{ prefix }}_step({% for port in m.fed %}const {{ port.c_type }}* in_{{ port.name }}, {% endfor %}{% for port in m.given %}{{ port.c_type }}* out_{{ port.name }}{{ ", " if not loop.last }}{% endfor %});

{% endif %}
/* Bytes of the arena in which tensors lie between runs; 0 before prepare. Allocation needs more than that for a moment:
   no size for the arena follows from this number. */
size_t {{ prefix }}_arena_used(void);

/* Runs the golden inputs through the model, prints one line for each and PASS or FAIL. Returns 0 for PASS. */
int {{ prefix }}_self_test(void);

#ifdef {{ macro }}_FIND_ARENA
/* Prints each size of the arena, downwards, with which the golden outputs are right; the last one suffices. */
void {{ prefix }}_find_arena(void);
#endif

{% for port in inputs %}
/* Where to put `{{ port.name }}`: {{ port.tensor.elements }} values of {{ port.tensor.dtype }}. Fill it before each run: TFLM may reuse the memory. NULL before prepare. */
{{ port.c_type }}* {{ prefix }}_{{ port.role | lower }}_{{ port.name }}(void);
{% endfor %}
{% for port in outputs %}
/* Where to find `{{ port.name }}`: {{ port.tensor.elements }} values of {{ port.tensor.dtype }}. NULL before prepare. */
const {{ port.c_type }}* {{ prefix }}_{{ port.role | lower }}_{{ port.name }}(void);
{% endfor %}

#ifdef __cplusplus
}
#endif
{% for port in inputs if port.scale is not none %}
{% if loop.first %}

/* From real numbers to codes, as TFLM's QUANTIZE does it: the nearest code, halves away from 0, clipped to the type's
   range. NaN becomes the least code. No function of libm is called. */
{% endif %}
static inline {{ port.c_type }} {{ prefix }}_quantize_{{ port.name }}(float real) {
  const int32_t least = {{ "-32768" if port.tensor.dtype == "int16" else "0" if port.tensor.dtype == "uint8" else "-128" }};
  const int32_t most = {{ "32767" if port.tensor.dtype == "int16" else "255" if port.tensor.dtype == "uint8" else "127" }};
  const float steps = real / {{ macro }}_{{ port.macro }}_SCALE;
  int32_t code;
  float rest;
  if (!(steps > (float)(least - {{ macro }}_{{ port.macro }}_ZERO_POINT))) return ({{ port.c_type }})least;
  if (steps >= (float)(most - {{ macro }}_{{ port.macro }}_ZERO_POINT)) return ({{ port.c_type }})most;
  code = (int32_t)steps;
  rest = steps - (float)code;
  if (rest >= 0.5f) ++code;
  if (rest <= -0.5f) --code;
  return ({{ port.c_type }})(code + {{ macro }}_{{ port.macro }}_ZERO_POINT);
}
{% endfor %}
{% for port in outputs if port.scale is not none %}
{% if loop.first %}

/* From codes back to real numbers. */
{% endif %}
static inline float {{ prefix }}_real_{{ port.name }}({{ port.c_type }} code) {
  return {{ macro }}_{{ port.macro }}_SCALE * (float)((int)code - {{ macro }}_{{ port.macro }}_ZERO_POINT);
}
{% endfor %}

#endif /* {{ macro }}_RUNNER_H_ */
