// Offload bundles, plain and compressed, and the choice among their entries.
#include <gtest/gtest.h>

#include "code_object/bundle.h"
#include "code_object/code_object.h"
#include "inputs.h"
#if __has_include(<zlib.h>)
#include <zlib.h>
#define HAVE_ZLIB 1
#endif
#if __has_include(<zstd.h>)
#include <zstd.h>
#define HAVE_ZSTD 1
#endif

namespace hipemu {
namespace {

using test::File;

File text_file(std::string_view text) {
  File file;
  test::append(file, text);
  return file;
}

std::string selected(const File& bundle, std::string_view processor) {
  const auto code = select_code_object(bundle, processor);
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

TEST(Bundle, TheMostSpecificEntryIsChosen) {
  const File bundle = test::make_bundle({{"host-x86_64-unknown-linux-gnu-", {}},
                                         {"hipv4-amdgcn-amd-amdhsa--gfx11-generic", text_file("generic")},
                                         {"hipv4-amdgcn-amd-amdhsa--gfx1100", text_file("1100")},
                                         {"hip-amdgcn-amd-amdhsa--gfx1030", text_file("1030")},
                                         {"hip-amdgcn-amd-amdhsa-gfx906", text_file("906")},
                                         {"hipv4-amdgcn-amd-amdhsa-unknown-gfx908", text_file("908")},
                                         {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", text_file("90a+")},
                                         {"hipv4-amdgcn-amd-amdhsa--gfx90a", text_file("90a")},
                                         {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", text_file("90a-")},
                                         {"hip-spirv64-amd-amdhsa--amdgcnspirv", text_file("spirv")}});
  EXPECT_EQ(selected(bundle, "gfx1100"), "1100");
  EXPECT_EQ(selected(bundle, "gfx1151"), "generic");
  EXPECT_EQ(selected(bundle, "gfx1030"), "1030");
  EXPECT_EQ(selected(bundle, "gfx906:sramecc+:xnack-"), "906");
  EXPECT_EQ(selected(bundle, "gfx908"), "908");
  EXPECT_EQ(selected(bundle, "gfx90a"), "90a-");
  EXPECT_EQ(selected(bundle, "gfx90a:sramecc+:xnack-"), "90a-");
  EXPECT_EQ(selected(bundle, "gfx90a:sramecc+:xnack+"), "90a+");
  EXPECT_EQ(image_size(bundle.data(), bundle.size()), bundle.size());

  const std::string error = test::error_of([&] { select_code_object(bundle, "gfx1201"); });
  EXPECT_NE(error.find("no code for gfx1201"), std::string::npos) << error;
  EXPECT_NE(error.find("gfx11-generic, gfx1100"), std::string::npos) << error;
  EXPECT_NE(error.find("amdgcnspirv"), std::string::npos) << error;
  EXPECT_EQ(error.find("host"), std::string::npos) << error;
}

TEST(Bundle, ImageMayBeFollowedByOtherBytes) {
  const File bundle = test::make_bundle({{"hipv4-amdgcn-amd-amdhsa--gfx1100", text_file("code")}});
  File longer = bundle;
  longer.resize(longer.size() + 5000, std::byte{7});
  EXPECT_EQ(image_size(longer.data(), longer.size()), bundle.size());
  EXPECT_EQ(selected(longer, "gfx1100"), "code");
}

TEST(Bundle, ACodeObjectAlone) {
  File file = test::seed("axpy_gfx1100.co");
  EXPECT_EQ(image_size(file.data(), file.size()), file.size());
  EXPECT_EQ(select_code_object(file, "gfx1100"), file);
  const std::string error = test::error_of([&] { select_code_object(file, "gfx942"); });
  EXPECT_NE(error.find("no code for gfx942; there is code for gfx1100"), std::string::npos) << error;
  const File original = file;
  file.resize(file.size() + 999, std::byte{1});
  EXPECT_EQ(image_size(file.data(), file.size()), original.size());
  EXPECT_EQ(select_code_object(file, "gfx1100"), original);
}

TEST(Bundle, NeitherOfThese) {
  const std::string error =
      test::error_of([] { select_code_object(text_file("%PDF-1.4 and so on"), "gfx1100"); });
  EXPECT_NE(error.find("25 50 44 46"), std::string::npos) << error;
  EXPECT_THROW(select_code_object({}, "gfx1100"), CodeObjectError);
  EXPECT_THROW(image_size(nullptr, 0), CodeObjectError);
}

TEST(Bundle, MadeByClangsTool) {
  LOAD_INPUT(bundle, "bundle.hipfb");
  LOAD_INPUT(gfx1100, "v5.co");
  LOAD_INPUT(gfx90a, "gfx90a.co");
  EXPECT_EQ(select_code_object(bundle, "gfx1100"), gfx1100);
  EXPECT_EQ(select_code_object(bundle, "gfx90a:sramecc+:xnack-"), gfx90a);
  EXPECT_EQ(image_size(bundle.data(), bundle.size()), bundle.size());
}

TEST(Bundle, CompressedByClangsTool) {
  LOAD_INPUT(bundle, "compressed.hipfb");
  LOAD_INPUT(gfx1100, "v5.co");
  EXPECT_EQ(select_code_object(bundle, "gfx1100"), gfx1100);
  EXPECT_EQ(image_size(bundle.data(), bundle.size()), bundle.size());
}

File compressed(const File& bundle, int version, int method, uint64_t claimed_size) {
  std::vector<std::byte> data;
#ifdef HAVE_ZLIB
  if (method == 0) {
    uLongf size = compressBound(bundle.size());
    data.resize(size);
    compress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(bundle.data()),
             bundle.size());
    data.resize(size);
  }
#endif
#ifdef HAVE_ZSTD
  if (method == 1) {
    data.resize(ZSTD_compressBound(bundle.size()));
    data.resize(ZSTD_compress(data.data(), data.size(), bundle.data(), bundle.size(), 3));
  }
#endif
  const std::size_t header = version == 1 ? 20 : version == 2 ? 24 : 32;
  File file;
  test::append(file, std::string_view("CCOB"));
  test::append(file, uint16_t(version));
  test::append(file, uint16_t(method));
  if (version == 2) test::append(file, uint32_t(header + data.size()));
  if (version == 3) test::append(file, uint64_t(header + data.size()));
  if (version < 3)
    test::append(file, uint32_t(claimed_size));
  else
    test::append(file, claimed_size);
  test::append(file, uint64_t(0x1234567890abcdef));  // hash
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

TEST(Bundle, EveryCompressedVersion) {
  const File bundle =
      test::make_bundle({{"hipv4-amdgcn-amd-amdhsa--gfx942", text_file("no")},
                         {"hipv4-amdgcn-amd-amdhsa--gfx1100", test::seed("axpy_gfx1100.co")}});
  std::vector<int> methods;
#ifdef HAVE_ZLIB
  methods.push_back(0);
#endif
#ifdef HAVE_ZSTD
  methods.push_back(1);
#endif
  for (int version = 1; version <= 3; ++version)
    for (const int method : methods) {
      SCOPED_TRACE(testing::Message() << "version " << version << " method " << method);
      File image = compressed(bundle, version, method, bundle.size());
      const std::size_t size = image.size();
      image.resize(size + 100, std::byte{0x5a});
      EXPECT_EQ(image_size(image.data(), image.size()), size);
      EXPECT_EQ(select_code_object(image, "gfx1100"), test::seed("axpy_gfx1100.co"));
      // Wrong claims, damage, missing bytes.
      EXPECT_THROW(select_code_object(compressed(bundle, version, method, bundle.size() - 1), "gfx1100"),
                   CodeObjectError);
      EXPECT_THROW(select_code_object(compressed(bundle, version, method, bundle.size() + 1), "gfx1100"),
                   CodeObjectError);
      EXPECT_THROW(select_code_object(compressed(bundle, version, method, uint64_t(1) << 31), "gfx1100"),
                   CodeObjectError);
      for (std::size_t length = 0; length < size; ++length)
        EXPECT_THROW(select_code_object(std::span(image).first(length), "gfx1100"), CodeObjectError)
            << length;
      for (std::size_t bit = 0; bit < size * 8; ++bit) {
        File damaged(image.begin(), image.begin() + std::ptrdiff_t(size));
        damaged[bit / 8] ^= std::byte(1 << (bit % 8));
        test::error_of([&] { select_code_object(damaged, "gfx1100"); });
        test::error_of([&] { image_size(damaged.data(), damaged.size()); });
      }
    }
}

TEST(Bundle, UnknownVersionsAndMethods) {
  const File bundle = test::make_bundle({{"hipv4-amdgcn-amd-amdhsa--gfx1100", text_file("x")}});
  const File image = compressed(bundle, 3, 1, bundle.size());
  EXPECT_THROW(select_code_object(test::patched(image, 4, uint16_t(9)), "gfx1100"), CodeObjectError);
  EXPECT_THROW(select_code_object(test::patched(image, 6, uint16_t(2)), "gfx1100"), CodeObjectError);
  EXPECT_THROW(select_code_object(test::patched(image, 8, uint64_t(3)), "gfx1100"), CodeObjectError);
  EXPECT_THROW(image_size(image.data(), image.size() - 1), CodeObjectError);
}

TEST(Bundle, HostileHeaders) {
  const File bundle = test::make_bundle({{"hipv4-amdgcn-amd-amdhsa--gfx1100", text_file("code")}});
  const auto refused = [](const File& file) {
    EXPECT_THROW(select_code_object(file, "gfx1100"), CodeObjectError);
  };
  refused(test::patched(bundle, 24, UINT64_MAX));      // number of entries
  refused(test::patched(bundle, 32, UINT64_MAX));      // offset
  refused(test::patched(bundle, 32, UINT64_MAX - 3));  // offset + size wraps to 0
  refused(test::patched(bundle, 40, UINT64_MAX));      // size
  refused(test::patched(bundle, 48, UINT64_MAX));      // length of the id
  refused(test::patched(bundle, 48, UINT64_MAX - 31));
  for (std::size_t length = 0; length < bundle.size(); ++length) {
    EXPECT_THROW(select_code_object(std::span(bundle).first(length), "gfx1100"), CodeObjectError);
    EXPECT_THROW(image_size(bundle.data(), length), CodeObjectError);
  }
  for (std::size_t bit = 0; bit < 100 * 8; ++bit) {
    File damaged = bundle;
    damaged[bit / 8] ^= std::byte(1 << (bit % 8));
    test::error_of([&] { select_code_object(damaged, "gfx1100"); });
    test::error_of([&] { image_size(damaged.data(), damaged.size()); });
  }
}

}  // namespace
}  // namespace hipemu
