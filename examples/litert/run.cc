// Runs an exported file with LiteRT's CompiledModel API, through the C interface of libLiteRt.
//
//   c++ -std=c++17 run.cc -o run -L FOLDER -lLiteRt -Wl,-rpath,FOLDER
//   run MODEL.tflite < inputs.f32 > outputs.f32
//
// FOLDER has libLiteRt.so; the wheel of ai-edge-litert brings one (python -c "import ai_edge_litert as a; print(a.__path__[0])").
// Inputs and outputs are float32 in the order of the file, one after the other, without anything between them.
// In a project with LiteRT's own headers, include litert/c/litert_compiled_model.h and its neighbours in place of these
// declarations, or use the C++ classes over them (litert::CompiledModel, see docs/mobile.md).

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
typedef struct LiteRtEnvironmentT* LiteRtEnvironment;
typedef struct LiteRtModelT* LiteRtModel;
typedef struct LiteRtOptionsT* LiteRtOptions;
typedef struct LiteRtCompiledModelT* LiteRtCompiledModel;
typedef struct LiteRtSignatureT* LiteRtSignature;
typedef struct LiteRtTensorT* LiteRtTensor;
typedef struct LiteRtTensorBufferT* LiteRtTensorBuffer;
typedef struct LiteRtTensorBufferRequirementsT* LiteRtTensorBufferRequirements;
typedef int LiteRtStatus;  // 0 is kLiteRtStatusOk.

// Of any size that the library may write: only passed on.
typedef struct {
  alignas(16) unsigned char opaque[512];
} LiteRtRankedTensorType;

LiteRtStatus LiteRtCreateEnvironment(int num_options, const void* options, LiteRtEnvironment*);
LiteRtStatus LiteRtCreateModelFromFile(LiteRtEnvironment, const char* filename, LiteRtModel*);
LiteRtStatus LiteRtCreateOptions(LiteRtOptions*);
LiteRtStatus LiteRtSetOptionsHardwareAccelerators(LiteRtOptions, int accelerators);
LiteRtStatus LiteRtCreateCompiledModel(LiteRtEnvironment, LiteRtModel, LiteRtOptions, LiteRtCompiledModel*);
LiteRtStatus LiteRtGetModelSignature(LiteRtModel, size_t index, LiteRtSignature*);
LiteRtStatus LiteRtGetNumSignatureInputs(LiteRtSignature, size_t*);
LiteRtStatus LiteRtGetNumSignatureOutputs(LiteRtSignature, size_t*);
LiteRtStatus LiteRtGetSignatureInputTensorByIndex(LiteRtSignature, size_t, LiteRtTensor*);
LiteRtStatus LiteRtGetSignatureOutputTensorByIndex(LiteRtSignature, size_t, LiteRtTensor*);
LiteRtStatus LiteRtGetRankedTensorType(LiteRtTensor, LiteRtRankedTensorType*);
LiteRtStatus LiteRtGetCompiledModelInputBufferRequirements(LiteRtCompiledModel, size_t signature, size_t,
                                                           LiteRtTensorBufferRequirements*);
LiteRtStatus LiteRtGetCompiledModelOutputBufferRequirements(LiteRtCompiledModel, size_t signature, size_t,
                                                            LiteRtTensorBufferRequirements*);
LiteRtStatus LiteRtCreateManagedTensorBufferFromRequirements(LiteRtEnvironment, const LiteRtRankedTensorType*,
                                                             LiteRtTensorBufferRequirements, LiteRtTensorBuffer*);
LiteRtStatus LiteRtGetTensorBufferPackedSize(LiteRtTensorBuffer, size_t*);
LiteRtStatus LiteRtLockTensorBuffer(LiteRtTensorBuffer, void** address, int mode);
LiteRtStatus LiteRtUnlockTensorBuffer(LiteRtTensorBuffer);
LiteRtStatus LiteRtRunCompiledModel(LiteRtCompiledModel, size_t signature, size_t num_inputs, LiteRtTensorBuffer*,
                                    size_t num_outputs, LiteRtTensorBuffer*);
void LiteRtDestroyTensorBuffer(LiteRtTensorBuffer);
void LiteRtDestroyCompiledModel(LiteRtCompiledModel);
void LiteRtDestroyOptions(LiteRtOptions);
void LiteRtDestroyModel(LiteRtModel);
void LiteRtDestroyEnvironment(LiteRtEnvironment);
}

enum { kCpu = 1 };  // kLiteRtHwAcceleratorCpu; 2 is the GPU, 3 both.
enum { kRead = 0, kWrite = 1 };

static void require(LiteRtStatus status, const char* what) {
  if (status != 0) {
    std::fprintf(stderr, "%s failed with status %d\n", what, status);
    std::exit(1);
  }
}

#define REQUIRE(call) require(call, #call)

// Moves a buffer's bytes from or to a stream.
static void move(LiteRtTensorBuffer buffer, FILE* stream, int mode) {
  size_t bytes = 0;
  void* address = nullptr;
  REQUIRE(LiteRtGetTensorBufferPackedSize(buffer, &bytes));
  REQUIRE(LiteRtLockTensorBuffer(buffer, &address, mode));
  const size_t moved = mode == kWrite ? std::fread(address, 1, bytes, stream) : std::fwrite(address, 1, bytes, stream);
  REQUIRE(LiteRtUnlockTensorBuffer(buffer));
  require(moved == bytes ? 0 : 1, mode == kWrite ? "reading the inputs" : "writing the outputs");
}

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: run MODEL.tflite < inputs.f32 > outputs.f32\n");
    return 2;
  }
  LiteRtEnvironment environment = nullptr;
  LiteRtModel model = nullptr;
  LiteRtOptions options = nullptr;
  LiteRtCompiledModel compiled = nullptr;
  REQUIRE(LiteRtCreateEnvironment(0, nullptr, &environment));
  REQUIRE(LiteRtCreateModelFromFile(environment, arguments[1], &model));
  REQUIRE(LiteRtCreateOptions(&options));
  REQUIRE(LiteRtSetOptionsHardwareAccelerators(options, kCpu));
  REQUIRE(LiteRtCreateCompiledModel(environment, model, options, &compiled));

  LiteRtSignature signature = nullptr;
  size_t num_inputs = 0, num_outputs = 0;
  REQUIRE(LiteRtGetModelSignature(model, 0, &signature));
  REQUIRE(LiteRtGetNumSignatureInputs(signature, &num_inputs));
  REQUIRE(LiteRtGetNumSignatureOutputs(signature, &num_outputs));
  std::vector<LiteRtTensorBuffer> inputs(num_inputs), outputs(num_outputs);
  for (size_t i = 0; i < num_inputs + num_outputs; i++) {
    const bool input = i < num_inputs;
    const size_t place = input ? i : i - num_inputs;
    LiteRtTensor tensor = nullptr;
    LiteRtRankedTensorType type;
    LiteRtTensorBufferRequirements needed = nullptr;
    REQUIRE((input ? LiteRtGetSignatureInputTensorByIndex : LiteRtGetSignatureOutputTensorByIndex)(signature, place,
                                                                                                   &tensor));
    REQUIRE(LiteRtGetRankedTensorType(tensor, &type));
    REQUIRE((input ? LiteRtGetCompiledModelInputBufferRequirements
                   : LiteRtGetCompiledModelOutputBufferRequirements)(compiled, 0, place, &needed));
    REQUIRE(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needed,
                                                            input ? &inputs[place] : &outputs[place]));
  }

  for (LiteRtTensorBuffer buffer : inputs) move(buffer, stdin, kWrite);
  REQUIRE(LiteRtRunCompiledModel(compiled, 0, num_inputs, inputs.data(), num_outputs, outputs.data()));
  for (LiteRtTensorBuffer buffer : outputs) move(buffer, stdout, kRead);

  for (LiteRtTensorBuffer buffer : inputs) LiteRtDestroyTensorBuffer(buffer);
  for (LiteRtTensorBuffer buffer : outputs) LiteRtDestroyTensorBuffer(buffer);
  LiteRtDestroyCompiledModel(compiled);
  LiteRtDestroyOptions(options);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(environment);
  return 0;
}
