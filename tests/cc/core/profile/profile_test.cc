#include "cc/core/profile/profile.h"

#include <gtest/gtest.h>

#include <string>

namespace lms {
namespace {

constexpr char kHead[] = "lms-profile 1\ndevice \"CPU x\"\ntensorflow 2.21.0\nlms 0.1.0\nonednn on\n";

ProfilePlace Place() { return {"CPU x", "2.21.0", "0.1.0", true}; }

std::string Problem(const std::string& text) {
  Profile profile;
  profile.place.device = "untouched";
  std::string problem = ParseProfile(text, "p", &profile);
  EXPECT_EQ(profile.place.device == "untouched", !problem.empty()) << text;
  return problem;
}

TEST(ProfileTest, ReadsWhatItWrites) {
  Profile profile;
  profile.place = Place();
  profile.place.device = "CPU \"odd\" name\n";
  profile.place.onednn = false;
  profile.entries["Relu(float[8,16])->float[8,16] 0123"] = {12.5, 0.1, 7};
  profile.entries["Mul(float[?],float[])->float[?] 4567"] = {0, 1e-3, 1};
  Profile again;
  ASSERT_EQ(ParseProfile(ProfileText(profile), "p", &again), "");
  EXPECT_EQ(again.place.DifferenceTo(profile.place), "");
  ASSERT_EQ(again.entries.size(), 2U);
  const ProfileEntry& entry = again.entries.at("Relu(float[8,16])->float[8,16] 0123");
  EXPECT_EQ(entry.measured_us, 12.5);
  EXPECT_EQ(entry.estimated_us, 0.1);
  EXPECT_EQ(entry.samples, 7);
  EXPECT_EQ(ProfileText(again), ProfileText(profile));
}

TEST(ProfileTest, RefusesWithTheLineWhatIsNoProfile) {
  const std::string head = kHead;
  EXPECT_EQ(Problem(head), "");
  EXPECT_EQ(Problem("").rfind("p:1: ", 0), 0U);
  EXPECT_NE(Problem("lms-graph 1\n").find("p:1: the first line must be 'lms-profile 1'"), std::string::npos);
  EXPECT_NE(Problem("lms-profile 2\n").find("version \"2\" of the format is not known"), std::string::npos);
  EXPECT_NE(Problem("lms-profile 1\ndevice a\nlms 1\nonednn on\n").find("'tensorflow' is missing"), std::string::npos);
  EXPECT_EQ(Problem(head + "device b\n"), "p:6: a second 'device'");
  EXPECT_EQ(Problem(head + "colour red\n"), "p:6: there is no statement \"colour\"");
  EXPECT_EQ(Problem(head + "op A()x 1 1\n"),
            "p:6: 'op' takes a key, two times in microseconds and a number of samples");
  EXPECT_EQ(Problem(head + "op A() 1 1 1\nop A() 1 1 1\n"), "p:7: the key \"A()\" is there already");
  for (const char* time : {"-1", "nan", "inf", "1e400", "1x", "1e16"}) {
    EXPECT_NE(Problem(head + "op A() " + time + " 1 1\n").find("is no time in microseconds"), std::string::npos)
        << time;
    EXPECT_NE(Problem(head + "op A() 1 " + time + " 1\n").find("is no time in microseconds"), std::string::npos)
        << time;
  }
  for (const char* samples : {"0", "-1", "1.5", "99999999999999999999"}) {
    EXPECT_NE(Problem(head + "op A() 1 1 " + samples + "\n").find("number of samples"), std::string::npos) << samples;
  }
  EXPECT_NE(Problem(head + "op A 1 1 1\n").find("has no type"), std::string::npos);
  EXPECT_NE(Problem("lms-profile 1\ndevice a\ntensorflow b\nlms 1\nonednn 1\n").find("'on' or 'off'"),
            std::string::npos);
  EXPECT_NE(Problem(head + "op \"A( 1 1 1\n").find("not closed"), std::string::npos);
}

TEST(ProfileTest, NoPrefixAndNoChangedByteCrashes) {
  Profile profile;
  profile.place = Place();
  profile.entries["Relu(float[8,16])->float[8,16] 0123"] = {12.5, 0.1, 7};
  const std::string text = ProfileText(profile);
  for (size_t i = 0; i < text.size(); ++i) {
    Profile read;
    ParseProfile(text.substr(0, i), "p", &read);
    for (const char c : {'\0', '"', '\\', '\xff', '\n', '9'}) {
      std::string changed = text;
      changed[i] = c;
      ParseProfile(changed, "p", &read);
    }
  }
}

TEST(ProfileTest, APlaceSaysWhatDiffers) {
  EXPECT_EQ(Place().DifferenceTo(Place()), "");
  ProfilePlace other = Place();
  other.device = "GPU y";
  EXPECT_EQ(Place().DifferenceTo(other), "it was measured on CPU x, this is GPU y");
  other = Place();
  other.tensorflow = "2.20.0";
  EXPECT_NE(Place().DifferenceTo(other).find("TensorFlow 2.21.0, this is 2.20.0"), std::string::npos);
  other = Place();
  other.lms = "9";
  EXPECT_NE(Place().DifferenceTo(other).find("lms 0.1.0"), std::string::npos);
  other = Place();
  other.onednn = false;
  EXPECT_EQ(Place().DifferenceTo(other), "it was measured with oneDNN on");
}

TEST(ProfileTest, WhatWasMeasuredCostsThatAndTheRestInProportion) {
  Profile profile;
  profile.entries["A(x)"] = {30, 10, 5};
  profile.entries["B(1)"] = {200, 1000, 5};  // B takes a fifth of its estimate
  profile.entries["B(2)"] = {100, 500, 5};
  profile.entries["B(3)"] = {2, 100, 5};
  profile.entries["C(x)"] = {0, 7, 5};  // joined with another one
  const ProfilePrices prices(profile);
  EXPECT_EQ(prices.Of("A(x)", 10).us, 30);
  EXPECT_TRUE(prices.Of("A(x)", 10).measured);
  EXPECT_EQ(prices.Of("C(x)", 7).us, 0);
  EXPECT_TRUE(prices.Of("C(x)", 7).measured);
  EXPECT_FALSE(prices.Of("A(y)", 50).measured);
  EXPECT_DOUBLE_EQ(prices.Of("A(y)", 50).us, 150);
  // By time, not by number: B(3) says another thing, but of 2 us among 302.
  EXPECT_DOUBLE_EQ(prices.Of("B(y)", 50).us, 10);
  // Of an unknown type: what most of the time was measured to take, B's fifth.
  EXPECT_DOUBLE_EQ(prices.Of("D(y)", 50).us, 10);
  // The quickest of four takes 2 us; views take nothing.
  EXPECT_DOUBLE_EQ(prices.Of("D(y)", 0.5).us, 2);
  EXPECT_EQ(prices.Of("D(y)", 0).us, 0);
}

TEST(ProfileTest, AnEmptyProfileLeavesEstimatesAsTheyAre) {
  const Profile none;
  const ProfilePrices prices(none);
  EXPECT_EQ(prices.Of("A(x)", 12.25).us, 12.25);
  EXPECT_FALSE(prices.Of("A(x)", 12.25).measured);
}

}  // namespace
}  // namespace lms
