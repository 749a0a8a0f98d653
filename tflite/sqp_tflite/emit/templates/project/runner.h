/* How to run `{{ source }}`: prepare once, then fill the input, run, read the output. C99 and C++11.
   Made by sqp-export. Do not edit. */
#ifndef {{ macro }}_RUNNER_H_
#define {{ macro }}_RUNNER_H_

#include <math.h>
#include <stddef.h>

#include "{{ prefix }}_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0 when the model is ready; call it once. */
int {{ prefix }}_prepare(void);

/* Runs the model on its inputs. Returns 0 when the outputs are valid. */
int {{ prefix }}_run(void);

/* Bytes of the arena that are in use; valid after {{ prefix }}_prepare. */
size_t {{ prefix }}_arena_used(void);

{% for port in inputs %}
/* Where to put `{{ port.name }}`: {{ port.tensor.elements }} values of {{ port.tensor.dtype }}. Fill it before each run: TFLM may reuse the memory. */
{{ port.c_type }}* {{ prefix }}_{{ port.role | lower }}_{{ port.name }}(void);
{% endfor %}
{% for port in outputs %}
/* Where to find `{{ port.name }}`: {{ port.tensor.elements }} values of {{ port.tensor.dtype }}. */
const {{ port.c_type }}* {{ prefix }}_{{ port.role | lower }}_{{ port.name }}(void);
{% endfor %}

#ifdef __cplusplus
}
#endif
{% for port in inputs if port.scale is not none %}
{% if loop.first %}

/* From real numbers to codes: the nearest code, clipped to the type's range. */
{% endif %}
static inline {{ port.c_type }} {{ prefix }}_quantize_{{ port.name }}(float real) {
  const float least = {{ "-32768" if port.tensor.dtype == "int16" else "0" if port.tensor.dtype == "uint8" else "-128" }}.0f;
  const float most = {{ "32767" if port.tensor.dtype == "int16" else "255" if port.tensor.dtype == "uint8" else "127" }}.0f;
  const float code = floorf(real / {{ macro }}_{{ port.macro }}_SCALE + 0.5f) + {{ macro }}_{{ port.macro }}_ZERO_POINT;
  return ({{ port.c_type }})(code < least ? least : (code > most ? most : code));
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
