// A bundle on ONNX Runtime's C API, with nothing of plansmith in it:
//
//     g++ -std=c++17 -O2 -I FOLDER_OF_THE_HEADER main.cpp -ldl -o consumer
//     ORT_DYLIB_PATH=libonnxruntime.so ./consumer BUNDLE 504 3575 282 4649 314
//
// The prompt is token ids: the standard library has nothing that reads any tokenizer.json. The way back, from ids to text, is here
// for byte-level vocabularies, which GPT-2's, Llama 3's, Qwen's and SmolLM's are.

#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

const OrtApi* api = nullptr;

[[noreturn]] void fail(const std::string& problem) {
    std::fprintf(stderr, "error: %s\n", problem.c_str());
    std::exit(2);
}

void check(OrtStatus* status) {
    if (status) fail(api->GetErrorMessage(status));
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// One letter of a JSON string in UTF-8; byte-level vocabularies have none beyond U+0143.
unsigned letter(const std::string& json, size_t& at) {
    unsigned char c = json.at(at++);
    if (c == '\\' && (c = json.at(at++)) == 'u') return std::stoul(json.substr((at += 4) - 4, 4), nullptr, 16);
    return c < 0x80 ? c : (c & 0x1f) << 6 | (json.at(at++) & 0x3f);
}

// What each id stands for: `"vocab": { "Paris": 7042, … }` of tokenizer.json, in which every letter is a byte.
std::map<int64_t, std::string> read_pieces(const std::string& json) {
    std::map<unsigned, char> bytes;
    for (unsigned byte = 0, other = 256; byte < 256; ++byte) {
        bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        bytes[plain ? byte : other++] = static_cast<char>(byte);
    }
    std::map<int64_t, std::string> pieces;
    size_t at = json.find('{', json.find("\"vocab\""));
    while (json.at(at = json.find_first_of("\"}", at)) == '"') {
        std::string piece;
        for (++at; json.at(at) != '"';) piece += bytes[letter(json, at)];
        at = json.find(':', at) + 1;
        pieces[std::stoll(json.substr(at, 20))] = piece;
    }
    return pieces;
}

// The ids that end a text: the same file that onnxruntime-genai reads has a number or a list.
std::set<int64_t> read_ends(const std::string& json) {
    std::set<int64_t> ends;
    size_t key = json.find("\"eos_token_id\"");
    if (key == std::string::npos) return ends;
    size_t at = json.find_first_of("[0123456789", key), last = json.find_first_of(json.at(at) == '[' ? "]" : ",}", at);
    while ((at = json.find_first_of("0123456789", at)) < last) {
        ends.insert(std::stoll(json.substr(at, 20)));
        at = json.find_first_not_of("0123456789", at);
    }
    return ends;
}

int main(int argc, char** argv) {
    if (argc < 3) fail("usage: consumer BUNDLE ID...");
    const std::string bundle = argv[1];
    std::vector<int64_t> ids;
    for (int i = 2; i < argc; ++i) ids.push_back(std::atoll(argv[i]));
    auto pieces = read_pieces(read(bundle + "/tokenizer.json"));
    auto ends = read_ends(read(bundle + "/genai_config.json"));

    const char* path = std::getenv("ORT_DYLIB_PATH");
    void* library = dlopen(path ? path : "libonnxruntime.so.1", RTLD_NOW);
    if (!library) fail(dlerror());
    auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
    if (!base || !(api = base()->GetApi(ORT_API_VERSION))) fail("the library is older than the header");
    OrtEnv* environment;
    OrtSessionOptions* options;
    OrtSession* session;
    OrtMemoryInfo* memory;
    OrtAllocator* allocator;
    check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "consumer", &environment));
    check(api->CreateSessionOptions(&options));
    check(api->CreateSession(environment, (bundle + "/onnx/model.onnx").c_str(), options, &session));
    check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    check(api->GetAllocatorWithDefaultOptions(&allocator));

    // The graph says what the cache is: each past begins empty, and the present of its name replaces it at every step.
    std::vector<std::string> inputs = {"input_ids", "attention_mask", "position_ids"}, outputs = {"logits"};
    std::vector<OrtValue*> cache;
    size_t count;
    check(api->SessionGetInputCount(session, &count));
    for (size_t i = 0; i < count; ++i) {
        char* name;
        check(api->SessionGetInputName(session, i, allocator, &name));
        if (const std::string past = name; past.rfind("past_key_values.", 0) == 0) {
            OrtTypeInfo* type;
            const OrtTensorTypeAndShapeInfo* info;
            ONNXTensorElementDataType element;
            std::vector<int64_t> shape(4);  // rows, heads, tokens, head size
            check(api->SessionGetInputTypeInfo(session, i, &type));
            check(api->CastTypeInfoToTensorInfo(type, &info));
            check(api->GetTensorElementType(info, &element));
            check(api->GetDimensions(info, shape.data(), shape.size()));
            api->ReleaseTypeInfo(type);
            shape[0] = 1, shape[2] = 0;
            check(api->CreateTensorAsOrtValue(allocator, shape.data(), shape.size(), element, &cache.emplace_back()));
            inputs.push_back(past);
            outputs.push_back("present." + past.substr(16));
        }
        check(api->AllocatorFree(allocator, name));
    }
    auto pointers = [](const std::vector<std::string>& names) {
        std::vector<const char*> pointers;
        for (auto& name : names) pointers.push_back(name.c_str());
        return pointers;
    };
    const auto input_names = pointers(inputs), output_names = pointers(outputs);

    for (int64_t id : ids) std::fputs(pieces[id].c_str(), stdout);
    size_t past = 0;
    for (int step = 0; step < 16; ++step) {
        std::vector<int64_t> tokens(ids.begin() + past, ids.end()), mask(ids.size(), 1), positions(tokens.size());
        std::iota(positions.begin(), positions.end(), past);
        std::vector<OrtValue*> feed;
        for (auto* row : {&tokens, &mask, &positions}) {
            const int64_t shape[] = {1, static_cast<int64_t>(row->size())};
            check(api->CreateTensorWithDataAsOrtValue(memory, row->data(), row->size() * sizeof(int64_t), shape, 2,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &feed.emplace_back()));
        }
        feed.insert(feed.end(), cache.begin(), cache.end());
        std::vector<OrtValue*> result(outputs.size(), nullptr);
        check(api->Run(session, nullptr, input_names.data(), feed.data(), feed.size(), output_names.data(), result.size(), result.data()));
        for (OrtValue* value : feed) api->ReleaseValue(value);
        cache.assign(result.begin() + 1, result.end());

        OrtTensorTypeAndShapeInfo* info;
        int64_t shape[3];  // rows, positions, vocabulary
        float* logits;
        check(api->GetTensorTypeAndShape(result[0], &info));
        check(api->GetDimensions(info, shape, 3));
        api->ReleaseTensorTypeAndShapeInfo(info);
        check(api->GetTensorMutableData(result[0], reinterpret_cast<void**>(&logits)));
        logits += (shape[1] - 1) * shape[2];
        const int64_t best = std::max_element(logits, logits + shape[2]) - logits;
        api->ReleaseValue(result[0]);
        if (ends.count(best)) break;
        past = ids.size();
        ids.push_back(best);
        std::fputs(pieces[best].c_str(), stdout);
        std::fflush(stdout);
    }
    std::puts("");
}
