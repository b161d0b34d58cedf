// The ops that move a tensor's bytes out of the device's memory and back, and the one that measures the way.
//
//   LmsSwapOut      tensor -> handle; the output exists only when the device's memory is not needed any more. Attrs: T,
//                   tier ("host" or "disk"), directory ("": the default one), deadline (smaller is more urgent), limit
//                   (bytes on the tier: of pinned memory in this process, or of the spill file; 0: none), host_limit
//                   (bytes of pinned memory on a GPU's way to a disk; 0: none but the machine's), behind (from a GPU to
//                   the host: the output exists when the copy has been handed over, and the device's memory is not
//                   needed any more when a LmsSwapWait or LmsSwapFetch runs)
//   LmsSwapWait     handles -> ; what the compute stream is given from now on comes after the copies that made them:
//                   then the device's memory is free
//   LmsSwapFetch    handle of pinned memory -> handle of a tensor on the device, whose bytes are on their way. Attr: T
//   LmsSwapFetched  such a handle -> tensor; the compute stream waits for the bytes. May run several times. Attr: T
//   LmsSwapIn       handle -> tensor; may run several times per handle. Attrs: T, shape (for shape inference; the
//                   handle knows the real one), deadline, host_limit
//   LmsMeasureLink  -> [out, in, out while both, in while both (bytes per us), latency (us)] of copies of `bytes` bytes
//                   between a GPU and pinned memory
//
// The handle is a Variant around a shared pointer (swap_handle.h): what it holds on the tier is given back with the
// last copy of it. All are stateful, so that none is merged, folded or pruned. Kernels: swap_cpu.h (CPU),
// swap_gpu.h and measure_link.h (GPU). Loading the library registers all of them, unless another copy of it has done
// so.

#ifndef LMS_CC_TF_RUNTIME_SWAP_OPS_H_
#define LMS_CC_TF_RUNTIME_SWAP_OPS_H_

namespace lms {

// False where the ops were there already. Called once, when the library is loaded.
bool RegisterSwapOps() noexcept;

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_OPS_H_
