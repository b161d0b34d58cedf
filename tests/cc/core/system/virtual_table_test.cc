#include "cc/core/system/virtual_table.h"

#include <memory>
#include <string>
#include <typeinfo>

#include "gtest/gtest.h"

namespace lms {
namespace {

class Animal {
 public:
  virtual ~Animal() = default;
  virtual int Legs() = 0;
  virtual int Legs(int missing) { return Legs() - missing; }
  int Plain() { return 1; }
};

class Dog : public Animal {
 public:
  int Legs() override { return 4; }
  virtual int Tails() { return 1; }
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual int Wheels() { return 4; }
};

class RobotDog : public Machine, public Animal {
 public:
  int Legs() override { return 3; }
};

int FiveLegs(Animal* /*self*/) { return 5; }

// Out of the compiler's sight, so that calls really go through the table.
__attribute__((noinline)) Animal* Hidden(Animal* animal) {
  Animal* volatile hidden = animal;
  return hidden;
}

int LegsEntry() { return VirtualEntry(static_cast<int (Animal::*)()>(&Animal::Legs)); }

TEST(VirtualTableTest, EntriesAreFoundInOrderOfDeclaration) {
  // The destructor takes entries 0 and 1.
  EXPECT_EQ(LegsEntry(), 2);
  EXPECT_EQ(VirtualEntry(static_cast<int (Animal::*)(int)>(&Animal::Legs)), 3);
  EXPECT_EQ(VirtualEntry(&Dog::Tails), 4);
}

TEST(VirtualTableTest, AFunctionThatIsNotVirtualHasNoEntry) { EXPECT_EQ(VirtualEntry(&Animal::Plain), -1); }

TEST(VirtualTableTest, OnlyTheObjectThatWasChangedIsAffected) {
  static VirtualTableCopy copy;
  auto changed = std::make_unique<Dog>();
  auto other = std::make_unique<Dog>();
  const int entry = LegsEntry();
  void** const original = TableOf(changed.get());
  ASSERT_EQ(CopyTable(changed.get(), &entry, 1, &copy), "");
  copy.table()[entry] = reinterpret_cast<void*>(&FiveLegs);
  EXPECT_EQ(Hidden(changed.get())->Legs(), 4) << "a copy alone changes nothing";

  SetTable(changed.get(), copy.table());
  EXPECT_EQ(Hidden(changed.get())->Legs(), 5);
  EXPECT_EQ(Hidden(changed.get())->Legs(1), 4) << "the base's own calls go through the new table: 5 - 1";
  EXPECT_EQ(Hidden(other.get())->Legs(), 4);
  auto* const dog = dynamic_cast<Dog*>(Hidden(changed.get()));
  ASSERT_NE(dog, nullptr);
  EXPECT_EQ(dog->Tails(), 1) << "entries that the base does not know are copied as well";
  EXPECT_TRUE(typeid(*Hidden(changed.get())) == typeid(Dog));

  SetTable(changed.get(), original);
  EXPECT_EQ(Hidden(changed.get())->Legs(), 4);
}

TEST(VirtualTableTest, ACopyOfACopyWorks) {
  static VirtualTableCopy first;
  static VirtualTableCopy second;
  Dog dog;
  const int entry = LegsEntry();
  ASSERT_EQ(CopyTable(&dog, &entry, 1, &first), "");
  first.table()[entry] = reinterpret_cast<void*>(&FiveLegs);
  SetTable(&dog, first.table());
  ASSERT_EQ(CopyTable(&dog, &entry, 1, &second), "");
  SetTable(&dog, second.table());
  EXPECT_EQ(Hidden(&dog)->Legs(), 5);
}

TEST(VirtualTableTest, ABaseInsideALargerObjectIsRefused) {
  VirtualTableCopy copy;
  RobotDog robot;
  const int entry = LegsEntry();
  EXPECT_EQ(CopyTable(static_cast<Animal*>(&robot), &entry, 1, &copy), "the object is a base of a larger one");
}

TEST(VirtualTableTest, SomethingThatIsNoObjectIsRefused) {
  VirtualTableCopy copy;
  const int entry = LegsEntry();
  auto on_heap = std::make_unique<void*[]>(64);
  void* no_object = on_heap.get() + 8;
  EXPECT_EQ(CopyTable(&no_object, &entry, 1, &copy), "the object's virtual table does not lie in a loaded library");
}

TEST(VirtualTableTest, AnEntryWithoutCodeIsRefused) {
  VirtualTableCopy copy;
  Dog dog;
  const int none = -1;
  EXPECT_EQ(CopyTable(&dog, &none, 1, &copy), "the object's virtual table has no code in entry -1");
  static void* zeros[64];  // lies in this program, holds no code
  void* no_object = &zeros[2];
  const int entry = 2;
  EXPECT_EQ(CopyTable(&no_object, &entry, 1, &copy), "the object's virtual table has no code in entry 2");
}

}  // namespace
}  // namespace lms
