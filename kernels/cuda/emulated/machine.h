// The block that runs, for all files of the emulated GPU (gpu_emulated.cc).
#pragma once

namespace tutti::kernels::cuda::emulated {

// Lets the others run. Returns when it is this fiber's turn again.
void Yield();
// Now and then lets the others run for so long that they may get far ahead, as a real GPU may.
void Dawdle();
// CHECKs that a copy which the running lane orders now may read from there: a kernel that may begin
// early copies only what is constant before WaitForEarlier.
void CheckMayCopy(const void* from);
// A block in which no lane calls it any more waits for ever, and fails.
void NoteProgress();
// Whether the running lane has ordered its registers before the next group of Wgmma.
void SetFenced(bool fenced);
bool IsFenced();

}  // namespace tutti::kernels::cuda::emulated
