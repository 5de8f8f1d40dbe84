// The driver API of CUDA, loaded at run time, so that the tests compile without its headers.
#ifndef CUDA_HPP
#define CUDA_HPP

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

class Cuda
{
public:
  using Address = unsigned long long;

  // False without a driver or a GPU.
  bool open()
  {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) {return false;}
    int device = 0;
    if (call<unsigned>("cuInit", 0u) || call("cuDeviceGet", &device, 0)) {return false;}
    void * context = nullptr;
    check(call("cuDevicePrimaryCtxRetain", &context, device), "a context");
    check(call("cuCtxSetCurrent", context), "the context");
    return true;
  }

  Address allocate(std::size_t num_bytes)
  {
    Address address = 0;
    check(call("cuMemAlloc_v2", &address, num_bytes), "memory");
    return address;
  }

  void * stream()
  {
    void * stream = nullptr;
    // Does not wait for the default stream.
    check(call("cuStreamCreate", &stream, 1u), "a stream");
    return stream;
  }

  void fill(Address to, unsigned char value, std::size_t num_bytes, void * stream)
  {
    check(call("cuMemsetD8Async", to, value, num_bytes, stream), "a fill");
  }

  void upload(Address to, const void * from, std::size_t num_bytes, void * stream)
  {
    check(call("cuMemcpyHtoDAsync_v2", to, from, num_bytes, stream), "an upload");
  }

  void copy(Address to, Address from, std::size_t num_bytes, void * stream)
  {
    check(call("cuMemcpyDtoDAsync_v2", to, from, num_bytes, stream), "a copy");
  }

  void download(void * to, const void * from, std::size_t num_bytes, void * stream)
  {
    const auto address = reinterpret_cast<Address>(from);
    check(call("cuMemcpyDtoHAsync_v2", to, address, num_bytes, stream), "a download");
    check(call("cuStreamSynchronize", stream), "the download");
  }

  void wait(void * stream) {check(call("cuStreamSynchronize", stream), "a wait");}

private:
  template<typename ... Arguments>
  int call(const char * name, Arguments ... arguments)
  {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function == nullptr ? -1 : function(arguments ...);
  }

  static void check(int result, const char * what)
  {
    if (result != 0) {
      std::printf("failed: CUDA: %s: %d\n", what, result);
      std::exit(1);
    }
  }

  void * library_ = nullptr;
};

#endif
