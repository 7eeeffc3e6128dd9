#include "model/xxh3.h"

namespace tutti::model {

void Xxh3WithAvx2(const void* bytes, size_t size, unsigned char* digest) {
  Xxh3(bytes, size, digest);
}

}  // namespace tutti::model
