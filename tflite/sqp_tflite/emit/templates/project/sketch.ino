// Runs the self-test of `{{ source }}` once, and prints PASS or FAIL on the serial port. Made by sqp-export.
#include <{{ prefix }}_runner.h>

void setup() {
  Serial.begin(115200);
  while (!Serial) {
  }
  Serial.println({{ prefix }}_self_test() == 0 ? "PASS" : "FAIL");
}

void loop() {}
