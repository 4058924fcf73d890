// A timing cache as TensorRT's headers declare it, that serialises to the text `timings` and fails everything else.

#include <NvInfer.h>

using namespace nvinfer1;

namespace
{
class Bytes : public apiv::VHostMemory
{
public:
    void* data() const noexcept override
    {
        return const_cast<char*>("timings");
    }
    std::size_t size() const noexcept override
    {
        return 7;
    }
    DataType type() const noexcept override
    {
        return DataType::kINT8;
    }
};

class Memory : public IHostMemory
{
public:
    Memory()
    {
        mImpl = new Bytes;
    }
    ~Memory() noexcept override
    {
        delete mImpl;
    }
};

class Inner : public apiv::VTimingCache
{
public:
    IHostMemory* serialize() const noexcept override
    {
        return new Memory;
    }
    bool combine(ITimingCache const&, bool) noexcept override
    {
        return false;
    }
    bool reset() noexcept override
    {
        return false;
    }
    int64_t queryKeys(TimingCacheKey*, int64_t) const noexcept override
    {
        return -1;
    }
    TimingCacheValue query(TimingCacheKey const&) const noexcept override
    {
        return {};
    }
    bool update(TimingCacheKey const&, TimingCacheValue const&) noexcept override
    {
        return false;
    }
};

class Outer : public ITimingCache
{
public:
    Outer()
    {
        mImpl = new Inner;
    }
    ~Outer() noexcept override
    {
        delete mImpl;
    }
};
} // namespace

extern "C" ITimingCache* make_timing_cache()
{
    return new Outer;
}
