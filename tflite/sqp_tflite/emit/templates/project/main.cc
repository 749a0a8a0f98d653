// A program that runs the self-test of `{{ source }}`, and nothing else. Made by sqp-export. Do not edit.
#include <stdio.h>

#include "{{ prefix }}_runner.h"

extern "C" {

// Where the text goes: standard output. Define a function of this name elsewhere to send it to a UART, RTT or the
// debugger: it replaces this one. With {{ macro }}_NO_STDIO there is none here.
#ifndef {{ macro }}_NO_STDIO
__attribute__((weak)) void {{ prefix }}_print(const char* text) {
  fputs(text, stdout);
  fflush(stdout);
}
#else
void {{ prefix }}_print(const char* text);
#endif

// TFLM's build for TARGET=cortex_m_generic is silent until it is given a function; other builds do not have this one.
__attribute__((weak)) void RegisterDebugLogCallback(void (*print)(const char* text));

}  // extern "C"

int main() {
  if (RegisterDebugLogCallback != nullptr) RegisterDebugLogCallback({{ prefix }}_print);
  const int failed = {{ prefix }}_self_test();
#ifdef {{ macro }}_FIND_ARENA
  {{ prefix }}_find_arena();
#endif
  return failed;
}
